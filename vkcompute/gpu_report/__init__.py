"""A report of a GPU: whether its results are right, and how fast it is, in a file to send to the project.

`python -m vkcompute.gpu_report` writes it. docs/gpu_reports.md describes the file.
"""
