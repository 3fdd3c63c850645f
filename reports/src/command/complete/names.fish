
# Names of functions are in the profile that the line asks for: the program names them.
complete -c vcpi -f -a '(vcpi __complete -- (commandline -opc)[2..-1] (commandline -ct) 2> /dev/null)'
