# Completion of radrm for bash. In ~/.bashrc:  source <(radrm completion bash)
_radrm() {
    local -a found
    local word=${COMP_WORDS[COMP_CWORD]}
    mapfile -t found < <("${COMP_WORDS[0]}" completion bash -- \
        "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    # Bash divides words at = and :, which are words of their own.
    [[ $word == [=:]* ]] && word=
    COMPREPLY=()
    case ${found[0]-} in
        files*) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
        folders*) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
        command*) mapfile -t COMPREPLY < <(compgen -c -- "$word") ;;
        open) compopt -o nospace; COMPREPLY=("${found[@]:1}") ;;
        words) COMPREPLY=("${found[@]:1}") ;;
    esac
}
complete -F _radrm radrm
