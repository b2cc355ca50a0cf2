"use strict";
{% include "sort.js" %}
{% include "help.js" %}
{% include "filter.js" %}
{% include "viewer.js" %}
