class Broken(
