// Package attack tries to get out of a tenant: users with every kind of
// credentials that could be mistaken for more than they are, against every
// resource, subresource and verb that discovery tells of, through every form of
// URL, over HTTP/1.1 and HTTP/2.
package attack
