# What to offer is asked of `ovms`, which gets the words without their quotes.
function __ovms
    set -l word (commandline -ot)
    COMPLETE=fish ovms -- (commandline -opc) "$word" 2>/dev/null </dev/null
end

complete -c ovms -f -k -a '(__ovms)'
# What fish expands it completes itself.
complete -c ovms -n 'string match -q "*\$*" -- (commandline -ct)' -F
