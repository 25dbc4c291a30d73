"""The one part that dials outside: resolve, check, dial exactly what was checked (guard against request forgery)."""
