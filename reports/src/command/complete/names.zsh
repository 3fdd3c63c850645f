# Names of functions are in the profile that the line asks for: the program names them.
_vcpi_functions() {
    local -a names
    names=("${(@f)$(vcpi __complete -- "${(@)words[2,CURRENT]}" 2> /dev/null)}")
    compadd -- "${(@)names:#}"
}
