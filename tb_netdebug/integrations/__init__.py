"""Callbacks for other people's trainers; each module is imported when its name is first used."""
