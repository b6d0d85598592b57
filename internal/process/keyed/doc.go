// Package keyed keeps values by keys, for many at once: what users of one key share, such as a semaphore of a tenant
// (Turns), for as long as there are users (Map), and what stays until it is deleted (Values). It must not decide what
// that is.
package keyed
