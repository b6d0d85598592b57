// Package keyed keeps what users of one key share, such as a semaphore of a tenant, for as
// long as there are users: nothing stays for who has none. It must not decide what that is.
package keyed
