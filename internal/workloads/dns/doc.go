// Package dns answers the names of Services and pods of all spaces, to their pods on a host cluster, and passes on what
// is asked for outside.
//
// It knows the host alone, and nothing is stored: it goes on while Tenantry is down. Who asks is known by the address
// of the client, which must be that of exactly one live pod of a space. It never guesses: whoever else asks gets no
// names. A name is looked for in the space of the client and in no other, so that those of others are not there, as for
// a name that nobody has.
//
// It must not write anything, nor ask the host's own DNS for names of the host.
package dns
