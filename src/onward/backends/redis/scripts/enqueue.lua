-- needs: basics, records, chunks, writes, counting, tokens, waking, lanes, jobs, adding
-- Store envelopes, all of them or none.  Answers true, or the id of the live job that stands for it, for each.
local now, retried, envelopes = instant(A[1]), A[2], A[3]

load_envelopes(envelopes)
local answers, refused = {}, 0
for at, envelope in ipairs(envelopes) do
  local answer = add(envelope, now, retried)
  if answer ~= true then
    refused = refused + 1
    answers[refused] = {at - 1, answer}
  end
end
flush()
flush_counts()
wake()
return cmsgpack.pack(answers)
