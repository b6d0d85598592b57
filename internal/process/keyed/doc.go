// Package keyed keeps what users of one key share, such as a semaphore of a tenant (Turns), for as
// long as there are users: nothing stays for who has none. It must not decide what else that is.
package keyed
