-- needs: basics, heads, records, chunks, writes, counting, tokens, waking, lanes, flows, jobs, graph, looking
-- A stretch of a walk over an index: what does not belong there is taken out, unless it names a job of which there is no
-- record.  Answers where the walk goes on, how many were taken out, and the members that name no record with their ids.
local now, cursor, stretch, name = instant(A[1]), A[2], A[3], ARGV[2]
is_lenient = true

local kind = string.match(name, '^[^:]*')
local is_set = kind == 'leases' or kind == 'asked'
local has_due = kind == 'ready' or kind == 'waiters'
local has_lane = kind == 'lanes' or kind == 'running'

local function id_in(member)
  if has_due then return sub(member, 9) end
  if kind == 'deaths' then return string.match(member, '^[^%z]*%z[^%z]*%z(.*)$') or member end
  local ends = has_lane and string.find(member, '\0', 1, true)
  return ends and #member > ends + 8 and sub(member, ends + 9) or member
end

-- Whether a job that is whole stands there; what an index says of it is corrected.
local function belongs(id, member, raw)
  if not is_live(raw) then
    local record = taken_apart(id, raw, decode_finished)
    if record and kind == 'deaths' then return record.died and member == deaths.member(record) end
    if record and kind == 'finished' then
      return is(record, IS_MEMBER) and name == flows.finished(record)
    end
    return record and name == (record[TOMB] == 1 and 'tombs' or 'ended:' .. record[STATE])
  end
  local record = job(id)
  if not record then return false end
  if kind == 'ended' or kind == 'tombs' or kind == 'finished' or kind == 'deaths' then return hget('older', id) and true end
  index(record, now)
  local members = (is_set and sets or zsets)[name]
  return kind == 'live' or (members and members[member] ~= nil)
end

even_if_full()
local scanned = redis.call(is_set and 'SSCAN' or 'ZSCAN', P .. name, cursor, 'COUNT', stretch)
local taken_out, missing = 0, {}
for at = 1, #scanned[2], is_set and 1 or 2 do
  local member = scanned[2][at]
  local id = id_in(member)
  local raw = redis.call('HGET', P .. 'jobs', id)
  if not raw then
    missing[#missing + 1] = {member, id}
  elseif not belongs(id, member, raw) then
    redis.call(is_set and 'SREM' or 'ZREM', P .. name, member)
    taken_out = taken_out + 1
    flows.lose(name, member)
  end
end
flush()
flows.look(now)
flush_counts()
wake()
return {scanned[1], taken_out, missing}
