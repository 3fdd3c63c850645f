
# Names of functions are in the profile that the line asks for: the program names them.
_vcpi_with_names() {
    local IFS=$' \t\n' line=${COMP_LINE:0:COMP_POINT} words word known names
    _vcpi "$@"
    # Names have colons, which divide words for bash alone.
    read -ra words <<< "$line"
    case $line in
        *[[:space:]]) words+=("") ;;
    esac
    word=${words[${#words[@]} - 1]}
    known=
    case $COMP_WORDBREAKS in
        *:*) known=${word%"${word##*:}"} ;;
    esac
    IFS=$'\n'
    names=($("$1" __complete -- "${words[@]:1}" 2> /dev/null))
    IFS=$' \t\n'
    for word in "${names[@]}"; do
        COMPREPLY+=("$(printf %q "${word#"$known"}")")
    done
}
complete -F _vcpi_with_names -o nosort -o bashdefault -o default vcpi
