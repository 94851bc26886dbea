# Completion of radrm for fish: radrm completion fish > ~/.config/fish/completions/radrm.fish
function __radrm_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l found (command $words[1] completion fish -- $words[2..-1] "$word" 2>/dev/null)
    set -l head (string split -m 1 \t -- $found[1])
    set -l before "$head[2]"
    set -l rest (string sub -s (math (string length -- "$before") + 1) -- "$word")
    switch "$head[1]"
        case files
            for path in (__fish_complete_path "$rest")
                echo "$before$path"
            end
        case folders
            for path in (__fish_complete_directories "$rest")
                echo "$before$path"
            end
        case command
            complete -C "$rest"
        case words open
            test (count $found) -gt 1; and printf '%s\n' $found[2..-1]
    end
end
complete -c radrm -f -a '(__radrm_complete)'
