"""What a start may believe: checkpoint, progress, the note of this boot, words of syncs, doubt."""
