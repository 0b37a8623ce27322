"""View models: what each page of the viewer shows, typed, and the function that fills it from what a question answers.

Every record here becomes a TypeScript interface in `web/src/models.ts`.
"""
