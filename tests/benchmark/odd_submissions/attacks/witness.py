"""Declares what its parameters name, and reports every piece of knowledge that it comes upon.

It looks in the observation, in the job as the worker received it, and in the job's folder of files.
"""

import gc
import json

from benchmark.spec import Attack, Knowledge, Parameter, Recovery

FACTS = ("noise_scale", "labels", "lengths", "frequencies", "type_count")


class Witness(Attack):
    name = "witness"
    summary = "Tells what it was told."
    parameters = {
        fact.replace("-", "_"): Parameter(False, f"whether to declare {fact}", uses={fact})
        for fact in Knowledge
    }
    variants = {"witness_of_all": dict.fromkeys(parameters, True)}

    def recover(self, observation):
        public = observation.public
        seen = {
            "noise-scale": observation.update.noise_scale,
            "labels": observation.labels,
            "lengths": observation.lengths,
            "frequencies": observation.frequencies,
            "type-count": observation.type_count,
            "public-text": public.text or public.sources or None,
            "prior": public.prior,
            "public-table": public.table,
        }
        gc.unfreeze()  # the server hides what it has made from the collector, not from us
        jobs = [each for each in gc.get_objects() if type(each).__name__ == "Assignment"]
        note = {
            "observed": sorted(name for name, value in seen.items() if value is not None),
            "granted": sorted(public.grants),
            "in the job": sorted({fact for job in jobs for fact in in_job(job)}),
            "files": sorted({path.name for job in jobs for path in job.inbox.iterdir()}),
        }
        return Recovery(token_types=frozenset({5}), note=json.dumps(note))


def in_job(job):
    """Names of the facts that the job holds."""
    body = json.loads(job.model_dump_json())["work"]
    found = {name for s in body["snapshots"] for name in FACTS if s[name] is not None}
    return found | set(body["task"]["grants"]) | ({"prior"} if body["task"]["prior"] else set())
