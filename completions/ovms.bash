# What to offer is asked of `ovms`, which gets the line and the part of its last word that bash replaces.
_ovms() {
    local word
    COMPREPLY=()
    # What bash expands it completes itself.
    [[ $2 == [~\$]* ]] && return
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(COMPLETE=bash _OVMS_LINE=${COMP_LINE:0:COMP_POINT} _OVMS_WORD=$2 ovms -- ovms 2>/dev/null </dev/null)
    if [[ ${COMPREPLY[0]} == *[=/]?(\') ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

complete -o nosort -o bashdefault -o default -F _ovms ovms 2>/dev/null ||
    complete -o bashdefault -o default -F _ovms ovms
