#!/usr/bin/env bash
# Makes the images that Kubernetes' own tests run, of agnhost and packages of Debian:
#
#   images.sh TESTS AGNHOST DIR ARCHITECTURE
#
# TESTS is the binary of the tests, which says what the images are called, and DIR, which is made
# anew, gets a tarball of each. Upstream's images have the same programs, of Alpine Linux; there is
# one of agnhost's kind for all of them here.
#
# It needs root, Go, and apt and dpkg of Debian.
set -euo pipefail

tests=$(realpath "$1") agnhost=$(realpath "$2") architecture=$4
packages=(busybox-static bash-static curl bind9-dnsutils netcat-openbsd iproute2)
rm -rf "$3"
mkdir -p "$3"/{root,packages/partial}
dir=$(realpath "$3") root=$dir/root

# With all that they need, whatever this machine has.
apt-get -o Dir::State::status=/dev/null -o Dir::Cache::archives="$dir/packages/" -o APT::Sandbox::User=root \
	-o APT::Install-Recommends=false --quiet=2 --yes --download-only install "${packages[@]}"
for package in "$dir"/packages/*.deb; do dpkg-deb --extract "$package" "$root"; done
rm -rf "$root"/usr/share/{doc,man,locale,lintian}
"$root/bin/busybox" --list-full | while read -r applet; do
	applet=bin/${applet##*/} # Alpine Linux has all that tests name with its directory there
	[[ -e $root/$applet || -L $root/$applet ]] || ln -s busybox "$root/$applet"
done
ln -sf nc.openbsd "$root/bin/nc"
# That of busybox runs busybox's own nc, whatever PATH says, and like dash drops variables such as data-1.
ln -sfn bash-static "$root/bin/sh"

install -m 755 "$agnhost" "$root/agnhost"
ln -s agnhost "$root/agnhost-2"
install -m 644 -t "$root" "$(go list -C "$(dirname "$0")/../conformance/suite" -m -f '{{.Dir}}' k8s.io/kubernetes)"/test/images/agnhost/porter/localhost.{crt,key}
mkdir -p "$root"/{root,uploads}
mkdir -m 1777 "$root/tmp"
cat >"$root/etc/passwd" <<-'FILE'
	root:x:0:0:root:/root:/bin/sh
	nobody:x:65534:65534:nobody:/:/bin/false
FILE
cat >"$root/etc/group" <<-'FILE'
	root:x:0:
	nogroup:x:65534:
FILE

cd "$(dirname "$0")/../../tools/image"
for name in $("$tests" -list-images); do
	case $name in
	registry.k8s.io/e2e-test-images/agnhost:*) runs=(-entrypoint /agnhost -command pause) ;;
	registry.k8s.io/e2e-test-images/busybox:*) runs=(-command sh) ;;
	# Nobody asks nginx for anything here.
	registry.k8s.io/pause:* | registry.k8s.io/e2e-test-images/nginx:*) runs=(-entrypoint "/agnhost pause") ;;
	*) continue ;;
	esac
	file=${name##*/}
	go run . -o "$dir/${file/:/-}.tar" -name "$name" -root "$root" "${runs[@]}" "$architecture"
done
