// Package conditions has what the controllers' status conditions have in common: how long
// a message may be, how many names it has, and how long an object has waited.
package conditions
