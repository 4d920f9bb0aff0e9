"""What connects NetDebug with trainers of other people; each module is imported when its name is used."""
