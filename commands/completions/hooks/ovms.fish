# Names, which only a server or a file knows: the program is asked for them.
function __ovms_names
    set -l before (commandline -opc)
    set -l token (commandline -ct)
    # Files after the @ of an input.
    if string match -qr '^(-i|--input=)?([^=@]*=)?@' -- "$token"
        set -l head (string match -r '^(?:--input=)?((?:[^=@]*=)?@)' -- "$token")[2]
        set -l path (string replace -r '^[^@]*@' '' -- "$token")
        for file in (__fish_complete_path "$path" file)
            echo -- "$head$file"
        end
        return
    end
    set -l program $before[1]
    type -fq -- "$program"; or set program ovms
    set -l all (commandline -op)
    set -l after $all[(math (count $before) + 1)..]
    test -n "$token"; and set -e after[1]
    set -l answer ($program complete fish --at (count $before) -- $before "$token" $after 2>/dev/null </dev/null)
    test (count $answer) -gt 1; and printf '%s\n' $answer[2..]
end

function __ovms_has_names
    string match -q -- '-*' (commandline -ct); and return 1
    set -l words (commandline -opc)
    string match -qr '^(infer|pipeline|graph|serve|--config_path(=.*)?)$' -- $words[2..]; or return 1
    set -g __ovms_answer (__ovms_names)
    test (count $__ovms_answer) -gt 0
end

# Arguments without a flag that are no files.
complete -c ovms -n '__fish_seen_subcommand_from infer setup doctor completions man' -f
complete -c ovms -n '__fish_seen_subcommand_from completions' -a 'bash zsh fish powershell elvish'
complete -c ovms -n '__fish_seen_subcommand_from man' -a 'serve infer pipeline graph setup doctor completions man'
complete -c ovms -n __ovms_has_names -f -k -a '$__ovms_answer'
