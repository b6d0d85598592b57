package keystone

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
)

// Access is who has logged in with a password, and the roles that tokens of the user for a
// domain and its projects would have.
type Access struct {
	// Token has no scope.
	Token *Token
	Roles []RoleOn
}

// RoleOn is a role on a project or, without one, on the domain.
type RoleOn struct{ ProjectID, RoleID string }

// LogIn logs in a user of a domain, by its name, and returns what the user may do in the domain:
// ErrNotValid if Keystone refuses the password, or an Error if it cannot be known.
func (c *Client) LogIn(ctx context.Context, domainID, name string, password Secret) (*Access, error) {
	token, err := c.logIn(ctx, domainID, name, password)
	if err != nil {
		return nil, err
	}
	// A user of another domain cannot have its name here.
	if token.User.Domain.ID != domainID || token.Project != nil || token.Domain != nil || token.System.All {
		return nil, &Error{Doing: loggingIn, Cause: errAnswer}
	}
	roles, err := c.rolesIn(ctx, domainID, token.User.ID)
	if err != nil {
		return nil, err
	}
	return &Access{Token: token, Roles: roles}, nil
}

const loggingIn = "logging in to Keystone with a user's password"

// logIn asks for a token without scope, which is thrown away. The request has nothing of the
// account, and is not sent again: a second one with a wrong password counts as another attempt.
func (c *Client) logIn(ctx context.Context, domainID, name string, password Secret) (*Token, error) {
	type object = map[string]any
	var answer struct {
		Token *Token `json:"token"`
	}
	throwaway := &gophercloud.ProviderClient{HTTPClient: c.provider.HTTPClient}
	//nolint:bodyclose // gophercloud closes what it decodes
	_, err := throwaway.Request(ctx, http.MethodPost, c.provider.IdentityBase+"v3/auth/tokens?nocatalog", &gophercloud.RequestOpts{
		JSONBody: object{"auth": object{
			"identity": object{"methods": []string{"password"}, "password": object{
				"user": object{"name": name, "domain": object{"id": domainID}, "password": string(password)}}},
			"scope": "unscoped", // or it is for the user's default project
		}},
		JSONResponse: &answer,
	})
	return answered(loggingIn, answer.Token, err, isWrongPassword)
}

// isWrongPassword reports whether Keystone refuses a user.
func isWrongPassword(err error) bool {
	status, _ := refusalOf(err)
	return status == http.StatusUnauthorized || status == http.StatusBadRequest
}

// rolesIn returns the roles that a user has, by whatever way, on a domain and on the enabled
// projects in it. The account reads them.
func (c *Client) rolesIn(ctx context.Context, domainID, userID string) ([]RoleOn, error) {
	ctx = context.WithValue(ctx, listing{}, true)
	var projects []Project
	if err := list(ctx, c, "users/"+userID+"/projects", &projects, func(p *Project) []string { return []string{p.ID, p.DomainID} }); err != nil {
		return nil, err
	}
	enabled := map[string]bool{}
	for _, p := range projects {
		enabled[p.ID] = p.Enabled && !p.IsDomain && p.DomainID == domainID
	}
	var roles []RoleOn
	// What roles and inheritance imply is in it, roles of one domain are not, as in tokens.
	err := c.eachAssignment(ctx, "?effective&user.id="+userID, func(a *assignment) {
		switch scope := a.Scope; {
		case !isID(a.Role.ID):
		case scope.Project != nil && enabled[scope.Project.ID]:
			roles = append(roles, RoleOn{scope.Project.ID, a.Role.ID})
		case scope.Domain != nil && scope.Domain.ID == domainID:
			roles = append(roles, RoleOn{"", a.Role.ID})
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(roles, func(a, b RoleOn) int {
		return cmp.Or(cmp.Compare(a.ProjectID, b.ProjectID), cmp.Compare(a.RoleID, b.RoleID))
	})
	return slices.Compact(roles), nil // Keystone may repeat rows
}
