#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Build packages in other ways and compare them with build/deb, which `make deb` has built. Run this script in a root of tests/distros.
#
#	packages.sh newest	build no packages, but the datapath with the newest clang of the release, and all adapters; run a demo
#	packages.sh again	build in another directory; the packages have the same bytes
#	packages.sh arm64	build with a cross compiler; the files are the same, and an emulated arm64 machine installs and runs them
#	packages.sh rpm		build with rpmbuild, without this system's names of libraries; the files are the same, and programs run
#	packages.sh postgresql RELEASE OLDER	build for the versions of PostgreSQL of two releases of Debian
set -eu

get()
{
	apt-get -qq update
	apt-get -qq install -y --no-install-recommends "$@" > /dev/null
}

# Print the paths in a package, without the paths that only Debian's packages have.
files()
{
	dpkg-deb -c "$1" | awk '{ print $6 }' | grep -v '/$' | grep -v '^./usr/share/\(doc\|lintian\)/' | sort
}

newest()
{
	clang=$(apt-cache search -n '^clang-[0-9]+$' | sed 's/ .*//' | sort -V | tail -n 1)
	get "$clang"
	make deps PACKAGES="$(for v in PG_PACKAGES TORCH_PACKAGES MPI_PACKAGES; do make -s print-$v; done | tr '\n' ' ')"
	"$clang" --version
	gcc --version
	make -j"$(nproc)" B=build/newest BPF_CLANG="$clang" all python postgres torch mpi
	build/newest/fpisa demo --workers 2 --vector 2000
}

again()
{
	git clone -q . /srv/again
	make -C /srv/again deb
	for deb in build/deb/*.deb; do
		cmp "$deb" "/srv/again/$deb"
	done
}

# Print a kernel of vm/kernels that is available here. Prefer this release's kernel, else take the newest release's.
kernel_for_arm64()
{
	for kernel in $(awk '$2 == "-" && $1 !~ /-/ { print $1 }' vm/kernels) $(tail -n 1 vm/kernels | cut -f 1); do
		if vm/fetch "$kernel" --arm64 > /dev/null; then
			echo "$kernel"
			return
		fi
	done
	return 1
}

arm64()
{
	dpkg --add-architecture arm64
	# shellcheck disable=SC2046  # a word a package
	get crossbuild-essential-arm64 qemu-system-arm cpio kmod xz-utils zstd $(make -s print-DEB_LIBRARIES | sed 's/[^ ]\+/&:arm64/g')
	make deb DEB_ARCH=arm64 DEB=/srv/arm64
	mkdir /srv/arm64/install
	for deb in /srv/arm64/*_arm64.deb; do
		native=build/deb/$(basename "$deb" _arm64.deb)_$(dpkg --print-architecture).deb
		case $deb in *-dbgsym_*) continue ;; esac
		files "$native" | sed 's/x86_64-linux-gnu/aarch64-linux-gnu/' | sort > /tmp/native
		files "$deb" | diff /tmp/native -
		dpkg-deb -x "$deb" /srv/arm64/root
		case $deb in */fpisa* | */libfpisa*) cp "$deb" /srv/arm64/install/ ;; esac
	done
	find /srv/arm64/root \( -name 'fpisa*' -o -name '*.so.*.*' \) -type f -exec sh -c 'readelf -h "$1" 2> /dev/null | grep -q Machine' sh {} \; -print |
		while read -r program; do
			echo "$program $(readelf -h "$program" | sed -n 's/.*Machine: *//p')"
		done > /tmp/machines
	grep -q '/usr/sbin/fpisa AArch64$' /tmp/machines
	if grep -v ' \(AArch64\|Linux BPF\)$' /tmp/machines; then
		return 1
	fi
	kernel=$(kernel_for_arm64)
	# shellcheck disable=SC2016  # the guest's shell expands them
	vm/arm64 --packages /srv/arm64/install "$kernel" build 'dpkg -i ./*.deb' 'fpisa --version' \
		'ip link add port type veth peer name host && ip link set port up && ip link set host up && ip addr add 10.0.0.1/24 dev port && ethtool -K host gro on' \
		'fpisa load port' 'fpisa job add 1 --workers 10.0.0.2,10.0.0.3' 'fpisa doctor port' 'fpisa unload' \
		'fpisa demo --workers 2 --vector 2000' 'dpkg -P $(ls | cut -d _ -f 1)' '! command -v fpisa'
}

rpm_packages()
{
	get rpm cpio
	make rpm RPMBUILD_FLAGS=--nodeps
	for name in fpisa fpisa-query fpisa-lab python3-fpisa; do
		files "$(echo build/deb/"${name}"_*.deb)" | sed 's,.*/,,; s/\.gz$//' | sort > /tmp/deb
		rpm -qlp build/rpm/RPMS/*/"$name"-[0-9]*.rpm | grep -v '/share/\(doc\|licenses\)/\|/\.build-id' | sed 's,.*/,,; s/\.gz$//' |
			grep -v '^fpisa$' | sort > /tmp/rpm
		grep -v '^fpisa$' /tmp/deb | diff - /tmp/rpm
	done
	mkdir /srv/rpm
	for package in build/rpm/RPMS/*/*.rpm; do
		rpm2cpio "$package" | (cd /srv/rpm && cpio -idm --quiet)
	done
	/srv/rpm/usr/sbin/fpisa --version
	/srv/rpm/usr/sbin/fpisa config check /srv/rpm/etc/fpisa/fpisa.conf
	/srv/rpm/usr/sbin/fpisa demo --workers 2 --vector 1000
}

postgresql()
{
	sed "s/ $1 / $2 /" /etc/apt/sources.list > /etc/apt/sources.list.d/older.list
	apt-get -qq update
	# shellcheck disable=SC2046  # a word a package
	get $(apt-cache search -n '^postgresql-server-dev-[0-9]*$' | cut -d ' ' -f 1)
	make deb DEB=/srv/postgresql DEB_BUILD_PROFILES="pkg.fpisa.notorch pkg.fpisa.nompi"
	count=0
	for server in /usr/include/postgresql/*/server; do
		version=${server#/usr/include/postgresql/} version=${version%/server} count=$((count + 1))
		dpkg-deb -c /srv/postgresql/postgresql-"$version"-fpisa_*.deb | grep "/usr/lib/postgresql/$version/lib/fpisa.so"
		dpkg-deb -f /srv/postgresql/postgresql-"$version"-fpisa_*.deb Depends | grep "postgresql-$version"
	done
	[ "$count" -gt 1 ]
}

case $1 in
rpm) rpm_packages ;;
*) "$@" ;;
esac
