// Package conditions has what the controllers' status conditions have in common: how long
// a message may be, how many names it has, how long an object has waited, the problems that
// a condition shows, and the events that tell of changes.
package conditions
