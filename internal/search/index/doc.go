// Package index holds what can be searched in a database: metadata of all objects. That is an embedded SQLite, in a
// file that is made anew each time, or a PostgreSQL that several processes use, one of which writes. It decides nothing
// about rights: Select is told what may be seen, and looks at nothing else, so that neither an answer nor its time
// depends on other objects.
//
// Statements are written once, for both (dialect), and databases get values by parameters alone. How text is compared
// is settled in package query.
package index
