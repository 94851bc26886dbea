-- radrm job_submit rules, format 4
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
   nodes = { -- nodes of one kind: GPUs, and MiB of each; where both are known
@NODES@   },
   wrapper = [==[
@WRAPPER@]==],
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
local SECONDS = {}
for names, seconds in pairs({
   ["s sec secs second seconds"] = 1, ["m min mins minute minutes"] = 60,
   ["h hr hrs hour hours"] = 3600, ["d day days"] = 86400, ["w week weeks"] = 604800,
}) do
   for name in string.gmatch(names, "%a+") do
      SECONDS[name] = seconds
   end
end

local function seconds_of(text)
   -- 90, 1:30, 0:01:30, 1-00, 1-00:00:00, 1h30min; nil: no duration
   local days, hours, minutes, seconds = string.match(text, "^(%d+)%-(%d+):?(%d*):?(%d*)$")
   if days ~= nil then
      minutes, seconds = tonumber(minutes) or 0, tonumber(seconds) or 0
      return (days * 24 + hours) * 3600 + minutes * 60 + seconds
   end
   hours, minutes, seconds = string.match(text, "^(%d+):(%d+):(%d%d)$")
   if hours == nil then
      minutes, seconds = string.match(text, "^(%d+):(%d%d)$")
   end
   if minutes ~= nil then
      return (hours or 0) * 3600 + minutes * 60 + seconds
   end
   if string.match(text, "^%d+%.?%d*$") then
      return tonumber(text)
   end
   local total = 0
   local left = string.gsub(string.lower(text), "(%d+%.?%d*)(%a+)", function(number, unit)
      total = total and SECONDS[unit] and total + number * SECONDS[unit]
      return ""
   end)
   return left == "" and total or nil
end

local function declared(script)
   -- What #RAD lines declare: MiB of each GPU, the number of GPUs, seconds; each may be nil.
   -- Last, whether the memory has a limit. What was typed (#RAD-OPTION) overrides the script.
   local own, typed = {}, {}
   for line in string.gmatch(script, "[^\n]+") do
      local found = string.match(line, "^#RAD%s") and own
         or string.match(line, "^#RAD%-OPTION%s") and typed
      if found then
         local size, unit =
            string.match(line, "%s%-%-gpu%-memory[=%s][\"']?(%d+%.?%d*)([kmgtKMGT]?)")
         if size ~= nil then
            found.mib = math.ceil(tonumber(size) * MIB[string.lower(unit)])
            found.limited = string.match(line, "%s%-%-gpu%-memory[=%s][^%s]*:") ~= nil
         end
         found.gpus = tonumber(string.match(line, "%s%-%-gpus[=%s][\"']?(%d+)")) or found.gpus
         local time = string.match(line, "%s%-%-time[=%s][\"']([^\"']*)")
            or string.match(line, "%s%-%-time[=%s]([%w:.-]+)")
         found.time_s = time ~= nil and seconds_of(string.gsub(time, "%s", "")) or found.time_s
      elseif not string.match(line, "^%s*#") and string.match(line, "%S") then
         break -- its first command
      end
   end
   local of_memory = typed.mib ~= nil and typed or own
   return of_memory.mib, typed.gpus or own.gpus, typed.time_s or own.time_s, of_memory.limited
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

local function body(script)
   -- What stands below the lines that start the step; nil: there are none
   local line, rest = string.match(script, "^([^\n]*)\n?(.*)$")
   if string.match(line, "^#!.*radrm%s+slurm%-step%s*$") ~= nil then
      return rest
   end
   local mark = "\n#RAD-SCRIPT\n"
   local at = string.find(script, mark, 1, true)
   if at ~= nil and string.find(script, "#!/bin/sh\n# radrm slurm-step\n", 1, true) == 1 then
      return string.sub(script, at + #mark)
   end
   return nil
end

local function too_small(script)
   -- The kinds of nodes that could never run this job
   local mib, gpus = declared(script)
   local found = {}
   for _, kind in ipairs(RADRM.nodes) do
      if (gpus or 1) > kind.gpus or (mib or 0) > kind.mib then
         found[#found + 1] = kind.names
      end
   end
   return #found < #RADRM.nodes and found or {} -- Slurm says that no node can
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
      return refuse("partition " .. RADRM.partition .. " takes batch jobs only: sbatch FILE; a "
         .. "terminal takes another partition")
   end
   if job.min_nodes ~= nil and job.min_nodes ~= slurm.NO_VAL and job.min_nodes > 1 then
      return refuse("partition " .. RADRM.partition .. " has jobs of one node; submit this one to "
         .. "a partition of whole GPUs")
   end
   local inside = body(job.script)
   local script, chosen = inside or job.script, ""
   if not asks(job, RADRM.gres) then
      if not string.match(script, "^#RAD%-GPUMEM\n") then
         chosen = "#RAD-GPUMEM\n" -- so that this is not taken for the user's wish
      end
      local mib, asked = gpumem_of(script), job.tres_per_node
      if mib > 0 then
         asked = (asked ~= nil and asked ~= "") and asked .. "," or ""
         -- The field gres is tres_per_node with Slurm's prefix: gres: until 23.02, then gres/
         job.gres = asked .. RADRM.gres .. ":" .. string.format("%d", mib)
      end
   end
   local small = too_small(script)
   if #small > 0 then
      local others = job.exc_nodes
      others = (others ~= nil and others ~= "") and others .. "," or ""
      job.exc_nodes = others .. table.concat(small, ",")
   end
   if job.time_limit == nil or job.time_limit >= slurm.NO_VAL then
      local _, _, time_s = declared(script)
      if time_s ~= nil and time_s > 0 and time_s < 31536000 then
         job.time_limit = math.ceil(time_s / 60) -- the limit is Slurm's
      end
   end
   if inside == nil or chosen ~= "" then
      job.script = RADRM.wrapper .. "#RAD-SCRIPT\n" .. chosen .. script
   end
   if job.requeue ~= 0 then
      job.requeue = 1 -- a job of --no-requeue fails where others go to another node
   end
   return slurm.SUCCESS
end

local function added(comment)
   -- By how many minutes a limit is longer, as radrm's comment says; nil: it is none of radrm's
   if string.match(comment or "", "^radrm: ") == nil then
      return nil
   end
   return tonumber(string.match(comment, "%(limit %+(%d+) min[,)]") or 0)
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
   if was_ours and others then
      return refuse("a job cannot be moved out of partition " .. RADRM.partition
         .. ": its script runs through radrm; submit it to the other one")
   end
   -- A job's wait for its GPU is given back. Slurm lets nobody but administrators write there.
   local before, after = added(record.admin_comment) or 0, added(job.admin_comment)
   if was_ours and after ~= nil and after ~= before and record.time_limit < slurm.NO_VAL then
      job.time_limit = math.max(1, record.time_limit - before) + after
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
