# Completion of firn in bash: asks firn itself what can follow.
#
# Bash ends words at =, : and @, which settings (cleaning_policy=greedy), policies (windowed:0.2) and states (disk.img@monday)
# contain. They are joined here, and what bash takes for finished is cut off the answers.
_firn() {
    local words=() prefix="" joins="" index=0 i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        local piece=${COMP_WORDS[i]}
        # The last word up to the cursor.
        ((i == COMP_CWORD)) && [[ ! $piece =~ ^[=:@]+$ ]] && piece=${2#@}
        if [[ $piece =~ ^[=:@]+$ && ${#words[@]} -gt 1 ]]; then
            words[-1]+=$piece
            prefix=${words[-1]}
            joins=yes
        elif [[ -n $joins ]]; then
            words[-1]+=$piece
            joins=""
        else
            words+=("$piece")
            prefix=""
        fi
    done
    # Other than = and :, an @ belongs to the word that bash replaces.
    [[ $2 == @* ]] && prefix=${prefix%@}
    index=$((${#words[@]} - 1))
    local IFS=$'\013'
    COMPREPLY=($(
        _CLAP_IFS="$IFS" _CLAP_COMPLETE_INDEX="$index" FIRN_COMPLETE=bash "${COMP_WORDS[0]}" -- "${words[@]}" 2>/dev/null
    ))
    COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} =~ [=:/,]$ ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o nosort -F _firn firn
