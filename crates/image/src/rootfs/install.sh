#!/bin/sh
# Finishes a root file system, in which it is run by guest/init/init while an image is built: dpkg installs
# the packages that are no part of the base, with their scripts, and the user's scripts follow.
#
# /run/nagori is a disk of the builder's: steps (one call of dpkg a line), packages/, provision/, files/.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true
input=/run/nagori
umask 022
cd /

# Ends the build; $1: what the builder is to say.
fail() {
    echo "nagori-install: failed: $1"
    exit 1
}

# Packages ask it whether they may start their services: not here.
policy=/usr/sbin/policy-rc.d
if [ -s $input/steps ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
    while read -r step packages; do
        echo "nagori-install: $step $packages"
        case $step in
        unpack)
            set --
            for p in $packages; do set -- "$@" "$input/packages/$p.deb"; done
            ;;
        configure)
            # shellcheck disable=SC2086
            set -- $packages
            ;;
        esac
        # The image is thrown away if the machine stops on the way: no file needs to be safe before.
        dpkg --force-unsafe-io --force-confdef --force-confold "--$step" "$@" </dev/null 2>&1 ||
            fail "dpkg --$step"
    done <$input/steps
    # Packages may bring ways to log in; the base has only passwords.
    for config in /usr/share/pam-configs/*; do
        [ "$config" != /usr/share/pam-configs/unix ] && [ -e "$config" ] || continue
        pam-auth-update --package --force </dev/null 2>&1 || fail pam-auth-update
        break
    done
    rm -f $policy
fi

export NAGORI_FILES=$input/files
for script in $input/provision/*; do
    [ -e "$script" ] || break
    echo "nagori-install: provision ${script##*/}"
    (cd /root && exec "$script") </dev/null 2>&1
    status=$?
    [ $status = 0 ] || fail "exit status $status"
done

echo "nagori-install: done"
# What scripts have left running holds the file system.
kill -9 -1 2>/dev/null
exit 0
