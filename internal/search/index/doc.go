// Package index holds what can be searched in an embedded SQLite: metadata of all objects, in a file
// that is made anew each time. It decides nothing about rights: Select is told what may be seen, and
// looks at nothing else, so that neither an answer nor its time depends on other objects.
//
// Databases get values by parameters alone. How text is compared is settled in package query.
package index
