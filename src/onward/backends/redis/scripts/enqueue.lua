-- needs: basics, heads, records, chunks, writes, audit, counting, tokens, waking, lanes, flows, jobs, graph, looking, adding
-- Store envelopes, all of them or none.  Answers true, or the id of the live job that stands for it, for each; or a number:
-- they are for a flow that is closed or not there, or from a run that has lost its lease.
local now, retried, envelopes, flow, lease, entries = instant(A[1]), A[2], A[3], A[4], A[5], A[6]

if flow then
  local state = flows.state('flow:' .. flow)
  if state == false then return -1 end
  if not state or state.closed then return 0 end
end
if lease then
  local record = job(lease[1])
  if not record or record[STATE] ~= EXECUTING or record[DELIVERY] ~= lease[2] or record[OWNER] ~= lease[3] then return 0 end
end

load_envelopes(envelopes)
local answers, refused, created = {}, 0, {}
for at, envelope in ipairs(envelopes) do
  local answer = add(envelope, now, retried)
  if answer ~= true then
    refused = refused + 1
    answers[refused] = {at - 1, answer}
  elseif entries then
    created[#created + 1] = envelope[1]
  end
end
if #created > 0 then audit.store(entries, created) end
flush()
flows.look(now)
flush_counts()
wake()
return cmsgpack.pack(answers)
