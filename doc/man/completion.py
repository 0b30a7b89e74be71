#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Write the bash completion of the CLI, from the CLI's table of verbs (table.py).

    completion.py FPISA
"""
import sys

import table

FUNCTION = r"""
_fpisa()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} first=1 verb words what
	COMPREPLY=()
	# --pin before the verb is not valid: the verb is the first word, or the first two.
	verb=${COMP_WORDS[1]}
	if [[ $verb == help ]]; then
		verb=${COMP_WORDS[2]}
		first=2
	fi
	if ((COMP_CWORD == first)); then
		COMPREPLY=($(compgen -W "$_fpisa_first help --version" -- "$cur"))
		return
	fi
	if [[ -n ${_fpisa_second[$verb]} ]]; then
		# A verb of one word may begin others of two.
		if ((COMP_CWORD == first + 1)) && [[ $cur != -* || -z ${_fpisa_options[$verb]} ]]; then
			COMPREPLY=($(compgen -W "${_fpisa_second[$verb]}" -- "$cur"))
			return
		fi
		words=${COMP_WORDS[first + 1]}
		[[ -n ${_fpisa_options[$verb]} && $words == -* ]] || verb+=" $words"
	fi
	[[ $first == 2 ]] && return
	# "--option=value" comes as three words.
	[[ $cur == = ]] && cur=
	[[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}
	if [[ -n ${_fpisa_values[$verb $prev]} ]]; then
		COMPREPLY=($(compgen -W "${_fpisa_values[$verb $prev]}" -- "$cur"))
		return
	fi
	what=${_fpisa_argument[$verb $prev]}
	if [[ -z $what && $cur == -* ]]; then
		COMPREPLY=($(compgen -W "${_fpisa_options[$verb]}" -- "$cur"))
		return
	fi
	case ${what:-${_fpisa_operand[$verb]}} in
	DEV)
		COMPREPLY=($(compgen -W "$(command ls /sys/class/net 2>/dev/null)" -- "$cur"))
		;;
	JOB)
		words=$(fpisa job list 2>/dev/null | awk 'NR > 1 { print $1 }')
		COMPREPLY=($(compgen -W "$words" -- "$cur"))
		;;
	F | FILE | DIR | PREFIX)
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen -f -- "$cur"))
		;;
	esac
}
complete -F _fpisa fpisa
"""


def array(name, entries):
    lines = "".join(f"\t[\"{k}\"]=\"{v}\"\n" for k, v in entries if v)
    return f"declare -gA {name}=(\n{lines})\n"


def main():
    # The installed file does not offer verbs that are not installed.
    verbs = [v for v in table.verbs(sys.argv[1])[0] if not v.of_the_tree]
    first = list(dict.fromkeys(v.name.split()[0] for v in verbs))
    second = [(f, " ".join(v.name.split()[1] for v in verbs if v.name.startswith(f + " "))) for f in first]
    options = [(v, o) for v in verbs for o in v.options.values()]
    print("# SPDX-License-Identifier: GPL-2.0-only")
    print("# bash completion of fpisa, from its table of verbs: doc/man/completion.py")
    print(f"_fpisa_first=\"{' '.join(first)}\"")
    print(array("_fpisa_second", second), end="")
    print(array("_fpisa_options", [(v.name, " ".join("--" + o for o in [*v.options, *v.common, "help"]))
                                   for v in verbs]), end="")
    print(array("_fpisa_values", [(f"{v.name} --{o.name}", " ".join(o.values)) for v, o in options]), end="")
    print(array("_fpisa_argument", [(f"{v.name} --{o.name}", o.metavar) for v, o in options if not o.values] +
                [(f"{v.name} --pin", "DIR") for v in verbs if "pin" in v.common]), end="")
    print(array("_fpisa_operand", [(v.name, v.operand()) for v in verbs]), end="")
    print(FUNCTION, end="")


if __name__ == "__main__":
    main()
