# Names, which only a server or a file knows: the program is asked for them.
_ovms_names() {
    local answer kind line program=$1 IFS=$' \t\n'
    case " ${COMP_WORDS[*]} " in
        *\ infer\ * | *\ pipeline\ * | *\ graph\ * | *\ serve\ * | *\ --config_path\ *) ;;
        *) return 1 ;;
    esac
    type -P -- "$program" >/dev/null 2>&1 || program=ovms
    answer=$("$program" complete bash -- "${COMP_LINE:0:COMP_POINT}" "${COMP_LINE:COMP_POINT}" \
        "$COMP_WORDBREAKS" 2>/dev/null </dev/null) || return 1
    while IFS= read -r line; do
        if [[ -z ${kind} ]]; then
            kind=${line%% *}
        else
            COMPREPLY+=("$line")
        fi
    done <<<"$answer"
    [[ ${#COMPREPLY[@]} -gt 0 ]] || return 1
    if [[ $kind == inputs ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}

# Files after the @ of an input.
_ovms_files() {
    local file head path word=${COMP_LINE:0:COMP_POINT}
    word=${word##*[[:space:]]}
    [[ $word =~ ^(-i|--input=)?([^=@]*=)?@(.*)$ ]] || return 1
    path=${BASH_REMATCH[3]}
    # What is replaced begins after the last character that ends a word.
    head=${2%"$path"}
    while IFS= read -r file; do
        [[ -n $file ]] || continue
        if [[ -d $file ]]; then
            file+=/
            compopt -o nospace 2>/dev/null
        fi
        printf -v file %q "$file"
        COMPREPLY+=("$head$file")
    done <<<"$(compgen -f -- "$path")"
    return 0
}

_ovms() {
    local IFS=$' \t\n'
    COMPREPLY=()
    _ovms_files "$@" && return 0
    _ovms_names "$@" && return 0
    _ovms_static "$@"
    # Where a file stands, flags are offered once a dash is there.
    case "${COMP_WORDS[*]:1} " in
        PATHS)
            [[ $2 == -* || ${COMP_WORDS[COMP_CWORD-1]} == -* || ${COMPREPLY[0]} != -* ]] || COMPREPLY=()
            ;;
    esac
    return 0
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _ovms -o nosort -o bashdefault -o default ovms
else
    complete -F _ovms -o bashdefault -o default ovms
fi
