package keystone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"

	"github.com/gophercloud/gophercloud/v2"
)

// Domain is a domain.
type Domain struct {
	Ref
	Enabled bool `json:"enabled"`
}

// Project is a project. Keystone calls domains projects, too.
type Project struct {
	Ref
	DomainID string `json:"domain_id"`
	Enabled  bool   `json:"enabled"`
	IsDomain bool   `json:"is_domain"`
}

// Listing is all that Keystone has, as far as the account sees it.
type Listing struct {
	Domains  []Domain
	Projects []Project
	Roles    []Ref
}

const (
	// maxPages and maxObjects bound a list.
	maxPages, maxObjects = 10_000, 1_000_000
)

var (
	errTruncated = errors.New("the list is truncated: raise list_limit in Keystone's configuration")
	errRepeated  = errors.New("the list does not end: a link to its next page repeats, or leads elsewhere")
	errTooMany   = errors.New("the list is too long")
	errTwice     = errors.New("the list has an id twice")
	errNoDomain  = errors.New("the list is empty: the account sees none")
)

// listing is the key of a context whose requests have long answers.
type listing struct{}

// List returns all domains, projects and roles, or an error if anything may be missing.
func (c *Client) List(ctx context.Context) (*Listing, error) {
	ctx = context.WithValue(ctx, listing{}, true)
	// Domains come last, so that those of all listed projects are there.
	found := &Listing{}
	if err := list(ctx, c, "roles", &found.Roles, func(r *Ref) []string { return []string{r.ID} }); err != nil {
		return nil, err
	}
	if err := list(ctx, c, "projects", &found.Projects, func(p *Project) []string { return []string{p.ID, p.DomainID} }); err != nil {
		return nil, err
	}
	if err := list(ctx, c, "domains", &found.Domains, func(d *Domain) []string { return []string{d.ID} }); err != nil {
		return nil, err
	}
	if len(found.Domains) == 0 { // Keystone itself needs one
		return nil, &Error{Doing: "listing domains in Keystone", Cause: errNoDomain}
	}
	return found, nil
}

// page is what all lists have in common.
type page struct {
	Truncated bool `json:"truncated"`
	Links     struct {
		Next *string `json:"next"`
	} `json:"links"`
}

// list reads a collection to its end. idsOf returns the ids of an object, its own first.
func list[T any](ctx context.Context, c *Client, resource string, to *[]T, idsOf func(*T) []string) error {
	collection := path.Base(resource)
	doing := "listing " + collection + " in Keystone"
	failed := func(cause error) error { return &Error{Doing: doing, Cause: cause} }
	seen, asked, query := map[string]bool{}, map[string]bool{}, ""
	for {
		if asked[query] {
			return failed(errRepeated)
		}
		if asked[query] = true; len(asked) > maxPages {
			return failed(errTooMany)
		}
		var body json.RawMessage
		if err := c.get(ctx, doing, resource, query, &body); err != nil {
			return err
		}
		var common page
		var objects map[string]json.RawMessage
		var items []T
		if json.Unmarshal(body, &common) != nil || json.Unmarshal(body, &objects) != nil || json.Unmarshal(objects[collection], &items) != nil || items == nil {
			return failed(errAnswer)
		}
		if common.Truncated {
			return failed(errTruncated)
		}
		for i := range items {
			ids := idsOf(&items[i])
			for _, id := range ids {
				if !isID(id) {
					return failed(errIncomplete)
				}
			}
			if seen[ids[0]] {
				return failed(errTwice)
			}
			seen[ids[0]] = true
		}
		if *to = append(*to, items...); len(*to) > maxObjects {
			return failed(errTooMany)
		}
		if common.Links.Next == nil {
			return nil
		}
		// The link may have another host than the one that we know Keystone by.
		next, err := url.Parse(*common.Links.Next)
		if err != nil || next.RawQuery == "" {
			return failed(errRepeated)
		}
		query = "?" + next.RawQuery
	}
}

// get asks for a resource.
func (c *Client) get(ctx context.Context, doing, resource, query string, to any) error {
	if err := c.ensureLogin(ctx, doing); err != nil {
		return err
	}
	//nolint:bodyclose // gophercloud closes what it decodes
	_, err := c.provider.Request(ctx, http.MethodGet, c.provider.IdentityBase+"v3/"+resource+query, &gophercloud.RequestOpts{JSONResponse: to})
	if err != nil {
		return failure(doing, err)
	}
	return nil
}

// DomainOfRole returns the domain of a role that lists of roles do not have, empty if there is no
// such role.
func (c *Client) DomainOfRole(ctx context.Context, id string) (string, error) {
	var answer struct {
		Role struct {
			DomainID string `json:"domain_id"`
		} `json:"role"`
	}
	err := c.get(ctx, "reading a role in Keystone", "roles/"+url.PathEscape(id), "", &answer)
	if failed, is := errors.AsType[*Error](err); is && failed.Status == http.StatusNotFound {
		return "", nil
	}
	return answer.Role.DomainID, err
}

// assignment is a role that a user or a group has.
type assignment struct {
	Role  Ref `json:"role"`
	Scope struct {
		Project, Domain *Ref
	} `json:"scope"`
}

// Assigned returns how often roles are assigned, by id, in the domains and projects whose
// ids of returns true for. What roles imply is not counted, and what is inherited once.
func (c *Client) Assigned(ctx context.Context, of func(id string) bool) (map[string]int32, error) {
	counts := map[string]int32{}
	err := c.eachAssignment(ctx, "", func(a *assignment) {
		for _, scope := range []*Ref{a.Scope.Project, a.Scope.Domain} {
			if scope != nil && isID(a.Role.ID) && of(scope.ID) {
				counts[a.Role.ID]++
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// eachAssignment calls each for all assignments of roles that a query asks for.
func (c *Client) eachAssignment(ctx context.Context, query string, each func(*assignment)) error {
	const doing = "listing role assignments in Keystone"
	ctx = context.WithValue(ctx, listing{}, true)
	if err := c.ensureLogin(ctx, doing); err != nil {
		return err
	}
	answer, err := c.provider.Request(ctx, http.MethodGet, c.provider.IdentityBase+"v3/role_assignments"+query,
		&gophercloud.RequestOpts{KeepResponseBody: true, OkCodes: []int{http.StatusOK}})
	if err != nil {
		return failure(doing, err)
	}
	defer answer.Body.Close()
	// It is one answer, however long, so it is read one by one.
	err = eachOf(json.NewDecoder(answer.Body), "role_assignments", func(decoder *json.Decoder) error {
		var a assignment
		if err := decoder.Decode(&a); err != nil {
			return err
		}
		each(&a)
		return nil
	})
	if err != nil {
		return failure(doing, err)
	}
	return nil
}

// eachOf calls each for all elements of a field of an object, which is an array.
func eachOf(decoder *json.Decoder, field string, each func(*json.Decoder) error) error {
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		if name != field {
			if err := decoder.Decode(new(json.RawMessage)); err != nil {
				return err
			}
			continue
		}
		if begin, err := decoder.Token(); err != nil || begin != json.Delim('[') {
			return fmt.Errorf("%s is no array: %w", field, errors.Join(err, errAnswer))
		}
		for decoder.More() {
			if err := each(decoder); err != nil {
				return err
			}
		}
		if _, err := decoder.Token(); err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	return err
}
