#compdef radrm
# Completion of radrm for zsh. In ~/.zshrc, behind compinit:  source <(radrm completion zsh)
_radrm() {
    local -a found texts shown
    local line kind before
    found=("${(@f)$("${(Q)words[1]}" completion zsh -- \
        "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    kind=${found[1]%%$'\t'*} before=${found[1]#*$'\t'}
    case $kind in
        files|folders)
            [[ -n $before ]] && compset -P '*='
            if [[ $kind == files ]]; then _files; else _files -/; fi ;;
        command) _command_names -e ;;
        open|words)
            for line in "${found[@]:1}"; do
                texts+=("${line%%$'\t'*}")
                shown+=("${line%%$'\t'*}${${line#*$'\t'}:+  -- ${line#*$'\t'}}")
            done
            if [[ $kind == open ]]; then compadd -l -S '' -d shown -a texts
            else compadd -l -d shown -a texts; fi ;;
    esac
}
if [[ $funcstack[1] == _radrm ]]; then _radrm "$@"; else compdef _radrm radrm; fi
