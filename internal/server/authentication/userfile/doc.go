// Package userfile reads the files of users with their tenants (--token-auth-file,
// --basic-auth-file). It imports nothing of Kubernetes' server, so that it can be fuzzed.
//
// Each line is a user:
//
//	secret,user,uid[,"groups"[,other...]][,,tenant]
//
// The secret is a bearer token or a password. Groups are separated by commas, within
// quotes if there are several. Other columns are ignored. An empty column before the
// last one announces a tenant in the last one. Without a tenant, the user belongs to the
// system tenant:
//
//	secret,jane,1,,acme
//	secret,jane,1,"developers,testers",,acme
//	secret,john,2,"system:masters"
//
// # Passwords
//
// A password is in the clear, or hashed by bcrypt ($2a$, $2b$ or $2y$, "htpasswd -nB")
// or SHA-crypt ($5$ or $6$, "openssl passwd -6"). SHA-crypt has at most 1,000,000
// rounds and passwords of at most 256 bytes. Other hashes are refused.
//
// # Mistakes
//
// A server does not start with a line that has fewer than three columns, no secret, no
// user, no valid tenant, the token or the user name (in a file of passwords) of an
// earlier line, or, in a file of passwords, a user name with a colon. Nor does it with an
// empty column that neither announces a tenant nor is that of the groups, or a group of no
// name: one comma too many, such as one after acme above, would make a tenant's user one of
// the system tenant. The error names the line.
//
// A file that changes is read again. If it is invalid then, the last valid content stays in
// force, and the metric tenantry_user_file_reloads_total counts a failure. It is invalid then, too,
// if its last line does not end with a newline: it may have been cut off. Have the new file take the
// place of the old one (rename): one that is gone for a moment is read again within a minute.
package userfile
