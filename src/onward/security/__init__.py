"""Keys, signing (it shows which program wrote a job) and encryption (it limits which programs can read it).

Called by the client (`Signing.sign`, `Encryption` while sealing), by an attempt (verify, decrypt) and by records of jobs.
Knows envelopes and settlements from `onward.job`; knows neither stores nor workers.

Read `key_ring` (what a key is, where keys come from), `signing`, `cipher` and `encryption` (how, then what), `note_seals`
(both, for notes), `key_file` (keys that change while a process runs), `keys` (all of it for one application).
"""
