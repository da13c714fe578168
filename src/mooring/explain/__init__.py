"""Explains pods, claims, volumes and nodes from listed objects, with the scheduler's own decision.

Pure: objects in, reports out. `cluster_objects` holds what was listed, `cluster_view` prepares it and `inspection`
decides a pod; `pod`, `volume`, `node` and `orphans` produce the types of `results`; `text` renders them; `messages/`
says what a component's message means; `remedies/` proposes changes and verifies each by deciding again. Reading files
or a cluster is done by the CLI.
"""
