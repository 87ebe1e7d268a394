# Names, which only a server or a file knows: the program is asked for them. zsh asks several times
# for one key, so that the answer is kept for a moment.
_ovms_names() {
    case " ${words[2,CURRENT-1]} " in
        (*\ (infer|pipeline|graph|serve|--config_path)\ *|*\ --config_path=*) ;;
        (*) return 1 ;;
    esac
    [[ $PREFIX == -* && $PREFIX != --*=* ]] && return 1
    zmodload -i zsh/datetime
    local program=${(Q)words[1]} key="$PWD $CURRENT $words"
    local -F now=$EPOCHREALTIME
    if [[ $key != $_ovms_asked ]] || (( now - _ovms_when > 1 )); then
        program=${program/#\~\//$HOME/}
        whence -p -- $program >/dev/null || program=ovms
        local -a line=("${(@Q)words}")
        line[CURRENT]=${(Q)PREFIX}
        typeset -g _ovms_asked=$key
        typeset -ga _ovms_answer=("${(@f)$(
            $program complete zsh --at $(( CURRENT - 1 )) -- "${(@)line}" 2>/dev/null </dev/null
        )}")
        typeset -gF _ovms_when=$EPOCHREALTIME
    fi
    (( ${#_ovms_answer} > 1 )) || return 1
    local kind=${_ovms_answer[1]%% *} skip=${_ovms_answer[1]##* } item
    local -a names after
    for item in "${(@)_ovms_answer[2,-1]}"; do
        local name=${item%%$'\t'*} about=${item#*$'\t'}
        names+=("${${name//\\/\\\\}//:/\\:}${about:+:$about}")
    done
    [[ $kind == inputs ]] && after=(-S '')
    compset -p $skip
    _describe -V -t names name names "${(@)after}"
}

_ovms() {
    # Files after the @ of an input.
    if [[ $PREFIX == (|-i|--input=)(|*=)@* ]]; then
        compset -P 1 '*@'
        _files
        return
    fi
    _ovms_names || _ovms_static "$@"
}

if [ "$funcstack[1]" = "_ovms" ]; then
    _ovms "$@"
else
    compdef _ovms ovms
fi
