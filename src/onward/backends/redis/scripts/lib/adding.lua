-- Storing envelopes.

-- Places in an envelope.  REST says where among the arguments the packed part of the record is; the sealed bytes are the next.
local E = {
  ID = 1, QUEUE = 2, RANK = 3, REST = 4, FLAGS = 5, DELAY = 6, NOT_BEFORE = 7, EXPIRES_AT = 8, KEY = 9, REPLACES = 10,
  FLOW = 11, NODE = 12, ABOUT = 13, CLOSED = 14,  -- ABOUT: where the packed plan of a new flow is
}

local stored = {}  -- ids, by this script

local function load_envelopes(envelopes)
  local ids = {}
  for at, envelope in ipairs(envelopes) do ids[at] = envelope[E.ID] end
  load(ids)
end

local add
do
  -- Whether a job of this id has ended, perhaps in this very script.
  local function finished_before(id)
    local raw = hashes['jobs'] and hashes['jobs'][id]
    if raw == nil then raw = raws[id] end
    return raw and not is_live(raw) and raw
  end

  -- An older job of this id is among the finished: what both would keep under the id is put aside.
  local function put_aside(id, raw)
    hash('older', id, cmsgpack.pack(raw, hget('sealed', id) or '', hget('progress', id) or ''))
    hash('sealed', id, false)
    hash('progress', id, false)
  end

  local function replace(holder, by, now)
    local reason = 'replaced by ' .. by
    if holder[STATE] == EXECUTING then
      free_key(holder)
      ask_to_cancel(holder, reason)
    else
      finish(holder, CANCELLED, now, reason)
    end
  end

  -- Store the flow of a new member, if it comes with one.  Whether the member waits: its node is not open.
  local function admit(envelope, now)
    local flow = envelope[E.FLOW]
    if envelope[E.ABOUT] and not hget('flow:' .. flow, 'about') then
      flows.store(flow, ARGV[envelope[E.ABOUT]], envelope[E.CLOSED], now)
    end
    return flows.add(flow, envelope[E.NODE], now)
  end

  -- True if it was stored, else the id of the live job that stands for it.
  function add(envelope, now, retried)
    local id, queue = envelope[E.ID], envelope[E.QUEUE]
    local old = finished_before(id)
    if stored[id] or job(id) or (retried and old) then return id end
    local key = envelope[E.KEY]
    if key then
      local holder = hget('unique', key)
      holder = holder and job(holder)
      if holder then
        if not envelope[E.REPLACES] then return holder.id end
        replace(holder, id, now)
      end
      hash('unique', key, id)
    end
    local at = now + (envelope[E.DELAY] or 0)
    if envelope[E.NOT_BEFORE] and envelope[E.NOT_BEFORE] > at then at = envelope[E.NOT_BEFORE] end
    local state = at <= now and AVAILABLE or SCHEDULED
    local flags = envelope[E.FLAGS] or 0
    if old then
      put_aside(id, old)
      flags = flags + IS_AGAIN
    end
    local is_member, waits = band(flags, IS_MEMBER) ~= 0, false
    if is_member then
      waits = admit(envelope, now)
      if waits then
        state, at = SCHEDULED, envelope[E.NOT_BEFORE] or envelope[E.DELAY] or 0
        flags = flags + AWAITS_NODE + (envelope[E.NOT_BEFORE] and 0 or IS_DELAYED)
      end
    end
    local sealed = ARGV[envelope[E.REST] + 1]
    local size = #sealed <= FEW and #sealed or 0
    local raw = struct.pack(FORMAT.record, state, 0, 0, flags, 0, at, size) .. ARGV[envelope[E.REST]]
    if size > 0 then
      raw = raw .. sealed
    else
      hash('sealed', id, sealed)
    end
    stored[id] = true
    local has_lane = band(flags, HAS_LANE) ~= 0
    jobs[id] = (key or has_lane) and decode(id, raw)  -- a job without a key is not read again before all is written
    if is_member then
      flows.list(envelope[E.FLOW] .. '\n' .. envelope[E.NODE], id, waits, 0)
      raws[id] = nil
      jobs[id] = jobs[id] or nil  -- the look may read it
    end
    hash('jobs', id, raw)
    zset('live', id, 0)
    if has_lane then
      index(jobs[id], now)
    elseif state == AVAILABLE then
      zset('ready:' .. queue, due(at) .. id, envelope[E.RANK])
      wakes[queue] = wakes[queue] or true
    elseif not waits then
      zset('later:' .. queue, id, at)
      if at - now < SOON then wakes[queue] = SOON end
    end
    if envelope[E.EXPIRES_AT] then zset('expiring:' .. queue, id, envelope[E.EXPIRES_AT]) end
    count(queue, state, 1)
    return true
  end
end
