"""What happens after a failed sync: which proofs end, and how the next start believes the disk.

The kernel may drop what it could not write and call the next sync a success. So a failed sync ends
the proof "written" at once, and leaves a note of where the doubt begins; the next start writes
what is readable from there on anew, syncs it, and only then recovers. Of a process that is killed
before it has heard how a sync ended, words in the marker say what was under way.
"""
