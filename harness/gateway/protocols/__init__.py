"""The four protocols that agents speak: what each allows, how it tells usage, how it says no."""
