-- radrm job_submit rules, format 2
--[[
  Slurm's job_submit plugin for the partition whose GPUs radrm shares. Put it beside slurm.conf as
  job_submit.lua, with JobSubmitPlugins=lua there. `radrm slurm setup` prints it with the names and
  amounts of your configuration. If you have such a file already, call radrm_submit and
  radrm_modify from its functions.

  A job there asks for GPU memory by a counted GRES, never for GPUs: the radrm daemon of its node
  gives it one. So its script runs through `radrm slurm-step`. What asks for neither gets what its
  #RAD lines declare, else the default amount.
]]
local RADRM = {
   partition = "@PARTITION@",
   gres = "@GRES@",
   default_mib = @DEFAULT_MIB@,
   margin_mib = @MARGIN_MIB@, -- at least,
   margin = @MARGIN@, -- and this part of the size, without a limit
   most_mib = @MOST_MIB@, -- of the largest node; 0: unknown
   wait_min = @WAIT_MIN@,
   first = "#!/usr/bin/env -S radrm slurm-step",
}

local function asks_for(text, name)
   -- "gres:gpu:2,gres:gpumem:6144", "gpu:a100:2", "gres/gpu=2"
   for part in string.gmatch(text or "", "[^,]+") do
      part = string.gsub(part, "^gres[:/]", "")
      if string.match(part, "^([^:=]+)") == name then
         return true
      end
   end
   return false
end

local FIELDS = { "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket" }

local function asks(job, name)
   for _, field in ipairs(FIELDS) do
      if asks_for(job[field], name) then
         return true
      end
   end
   return false
end

local function named(partitions)
   -- Whether these are the shared partition, and whether they are others, too: "shared,whole"
   local ours, others = false, false
   for name in string.gmatch(partitions or "", "[^,%s]+") do
      if name == RADRM.partition then
         ours = true
      else
         others = true
      end
   end
   return ours, others
end

local function is_alone(job)
   -- 0: --exclusive, 1: --oversubscribe, 2 and above: --exclusive=user and the like
   return job.shared ~= nil and job.shared ~= 1 and job.shared < 65534
end

local MIB = { [""] = 1, k = 1 / 1024, m = 1, g = 1024, t = 1048576 }
local SECONDS = { s = 1, m = 60, h = 3600, d = 86400 }

local function seconds_of(text)
   -- 90, 1:30, 0:01:30, 1-00:00:00, 1h30m; nil: no duration
   local days, rest = string.match(text, "^(%d+)%-(.+)$")
   local hours, minutes, seconds = string.match(rest or text, "^(%d+):(%d+):(%d%d)$")
   if hours == nil then
      minutes, seconds = string.match(rest or text, "^(%d+):(%d%d)$")
   end
   if minutes ~= nil then
      hours = (days or 0) * 24 + (hours or 0)
      return hours * 3600 + minutes * 60 + seconds
   end
   if string.match(text, "^%d+%.?%d*$") then
      return tonumber(text)
   end
   local total = 0
   local left = string.gsub(string.lower(text), "(%d+%.?%d*)([smhd])", function(number, unit)
      total = total + number * SECONDS[unit]
      return ""
   end)
   return left == "" and total or nil
end

local function declared(script)
   -- What #RAD lines declare: MiB of each GPU, the number of GPUs, seconds; each may be nil.
   -- Last, whether the memory has a limit
   local mib, gpus, time_s, limited
   for line in string.gmatch(script, "[^\n]+") do
      if string.match(line, "^#RAD%s") then
         local size, unit =
            string.match(line, "%s%-%-gpu%-memory[=%s][\"']?(%d+%.?%d*)([kmgtKMGT]?)")
         if size ~= nil then
            mib = math.ceil(tonumber(size) * MIB[string.lower(unit)])
            limited = string.match(line, "%s%-%-gpu%-memory[=%s][^%s]*:") ~= nil
         end
         gpus = tonumber(string.match(line, "%s%-%-gpus[=%s][\"']?(%d+)")) or gpus
         local time = string.match(line, "%s%-%-time[=%s][\"']?([%w:.-]+)")
         time_s = time ~= nil and seconds_of(time) or time_s
      elseif not string.match(line, "^%s*#") and string.match(line, "%S") then
         break -- its first command
      end
   end
   return mib, gpus, time_s, limited
end

local function gpumem_of(script)
   -- What a job asks for on all its GPUs: what it declares, with the margin; else the default
   local mib, gpus, _, limited = declared(script)
   gpus = math.min(gpus or 1, 1000)
   if mib == nil or mib > 1e9 then
      return gpus * RADRM.default_mib
   end
   local least = math.ceil(gpus * mib)
   local margin = math.max(RADRM.margin_mib, limited and 0 or math.ceil(RADRM.margin * mib))
   local asked = math.ceil(gpus * (mib + margin))
   if RADRM.most_mib > 0 and asked > RADRM.most_mib then
      return math.max(least, RADRM.most_mib) -- an idle GPU needs no margin
   end
   return asked
end

local function most_minutes(partitions)
   -- How long a job of the partition may be; nil: as long as it likes, or unknown
   local own = partitions ~= nil and partitions[RADRM.partition] or nil
   if own == nil or own.max_time == nil or own.max_time >= slurm.NO_VAL then
      return nil
   end
   return own.max_time
end

local function is_limited(job)
   return job.time_limit ~= nil and job.time_limit > 0 and job.time_limit < 525600
end

local function refuse(text)
   slurm.log_user("radrm: " .. text)
   return slurm.ERROR
end

function radrm_submit(job, partitions)
   if job.partition == nil and partitions ~= nil then
      for name, each in pairs(partitions) do
         if each.flag_default == 1 and name == RADRM.partition then
            job.partition = name
         end
      end
   end
   local ours, others = named(job.partition)
   if not ours then
      return slurm.SUCCESS
   end
   if others then
      return refuse("partition " .. RADRM.partition .. " has rules of its own; name it alone, "
         .. "without other partitions")
   end
   if is_alone(job) then
      return refuse("partition " .. RADRM.partition .. " shares its nodes; leave out --exclusive")
   end
   if asks(job, "gpu") then
      return refuse("partition " .. RADRM.partition .. " shares GPUs by their memory; ask for it "
         .. "with --gres=" .. RADRM.gres .. ":MIB in place of --gres=gpu or --gpus")
   end
   if job.script == nil or job.script == "" then
      return refuse("partition " .. RADRM.partition .. " takes batch jobs only: sbatch FILE; for a "
         .. "terminal on a shared GPU: radrm run --pty, on the node")
   end
   if job.min_nodes ~= nil and job.min_nodes ~= slurm.NO_VAL and job.min_nodes > 1 then
      return refuse("partition " .. RADRM.partition .. " has jobs of one node; submit this one to "
         .. "a partition of whole GPUs")
   end
   local chosen = ""
   if not asks(job, RADRM.gres) then
      chosen = "#RAD-GPUMEM\n" -- so that this is not taken for the user's wish
      local mib, asked = gpumem_of(job.script), job.tres_per_node
      if mib > 0 then
         asked = (asked ~= nil and asked ~= "") and asked .. "," or ""
         -- The field gres is tres_per_node with Slurm's prefix: gres: until 23.02, then gres/
         job.gres = asked .. RADRM.gres .. ":" .. string.format("%d", mib)
      end
   end
   local line, rest = string.match(job.script, "^([^\n]*)\n?(.*)$")
   local wrapped = string.match(line, "radrm%s+slurm%-step%s*$") ~= nil
   -- The job's own limit counts from its real start; Slurm's is longer by the wait.
   local limit, options = job.time_limit, ""
   if not wrapped and is_limited(job) then
      options = string.format("#RAD-OPTION --time=%d\n", limit * 60)
      limit = limit + RADRM.wait_min
   elseif not wrapped then
      local _, _, time_s = declared(job.script)
      if time_s ~= nil and time_s > 0 and time_s < 31536000 then
         limit = math.ceil(time_s / 60) + RADRM.wait_min
      end
   end
   local most = most_minutes(partitions)
   if limit ~= nil and limit < slurm.NO_VAL and most ~= nil and limit > most then
      return refuse(string.format("partition %s allows %d minutes, of which %d are for the wait on "
         .. "the node; ask for at most --time=%d", RADRM.partition, most, RADRM.wait_min,
         math.max(0, most - RADRM.wait_min)))
   end
   if limit ~= job.time_limit then
      job.time_limit = limit
   end
   if not wrapped then
      job.script = RADRM.first .. "\n" .. chosen .. options .. job.script
   elseif chosen ~= "" then
      job.script = line .. "\n" .. chosen .. rest
   end
   if job.requeue ~= 0 then
      job.requeue = 1 -- a job of --no-requeue fails where others go to another node
   end
   return slurm.SUCCESS
end

function radrm_modify(job, record)
   local was_ours = named(record.partition)
   local ours, others = named(job.partition)
   if not was_ours and not ours then
      return slurm.SUCCESS
   end
   if asks(job, "gpu") then
      return refuse("partition " .. RADRM.partition .. " shares GPUs by their memory, not by gpu")
   end
   if is_alone(job) then
      return refuse("partition " .. RADRM.partition .. " shares its nodes, with all jobs there")
   end
   if ours and (others or not was_ours) then
      return refuse("a job cannot be moved into partition " .. RADRM.partition
         .. ": its script has to run through radrm; submit it there")
   end
   return slurm.SUCCESS
end

function slurm_job_submit(job_desc, part_list, submit_uid)
   return radrm_submit(job_desc, part_list)
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
   return radrm_modify(job_desc, job_rec)
end

return slurm.SUCCESS
