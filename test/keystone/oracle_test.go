//go:build keystone

package keystone

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	oracleRounds    = 4
	oracleQuestions = 10_000
)

// What Kubernetes' own ClusterRoles have, in this order; each has what those before it have.
// everything is that of an administrator of the tenant.
const (
	nothing = iota
	view
	edit
	admin
	everything
)

var clusterRoles = []string{view: "view", edit: "edit", admin: "admin"}

// rights are some that Kubernetes documents for these roles, and which of them has it.
var rights = []struct {
	verb, group, resource, subresource string
	needs                              int
}{
	{"get", "", "pods", "", view}, {"list", "", "configmaps", "", view}, {"watch", "", "services", "", view},
	{"get", "apps", "deployments", "", view}, {"get", "", "namespaces", "", view}, {"get", "", "pods", "log", view},
	{"create", "", "pods", "", edit}, {"get", "", "secrets", "", edit}, {"delete", "", "configmaps", "", edit},
	{"update", "apps", "deployments", "", edit}, {"create", "", "pods", "exec", edit},
	{"create", "rbac.authorization.k8s.io", "rolebindings", "", admin}, {"get", "rbac.authorization.k8s.io", "roles", "", admin},
	{"create", "authorization.k8s.io", "localsubjectaccessreviews", "", admin},
	{"create", "rbac.authorization.k8s.io", "clusterroles", "", everything}, {"bind", "rbac.authorization.k8s.io", "clusterroles", "", everything},
	{"delete", "", "namespaces", "", everything}, {"create", "", "resourcequotas", "", everything}, {"create", "rbac.authorization.k8s.io", "clusterrolebindings", "", everything},
}

// place is a domain or, with a parent, a project.
type place struct {
	id      string
	parent  *place
	domain  *place
	enabled bool
	// sync is nil for a domain that no KeystoneSync selects, and tenant and namespace are
	// empty there.
	sync      *mapping
	tenant    tenant.Name
	namespace string
}

// path is that of the place in Keystone.
func (p *place) path() string {
	if p.parent == nil {
		return "/domains/" + p.id
	}
	return "/projects/" + p.id
}

// isBelow reports whether p is in a, and is not a.
func (p *place) isBelow(a *place) bool {
	return p.parent != nil && (p.parent == a || p.parent.isBelow(a))
}

// mapping is that of a KeystoneSync.
type mapping struct {
	project, domain map[string]int
	admin           string
	object          *v1alpha1.KeystoneSync
}

// someone is a user of the model.
type someone struct {
	user
	enabled bool
}

// held is a role that somebody, a user or a group, has at a place; inherited, below it.
type held struct {
	who, role string
	at        *place
	inherited bool
}

func (h held) path() string {
	kind := "/users/"
	who, isGroup := strings.CutPrefix(h.who, "group ")
	if isGroup {
		kind = "/groups/"
	}
	path := h.at.path() + kind + who + "/roles/" + h.role
	if h.inherited {
		return "/OS-INHERIT" + path + "/inherited_to_projects"
	}
	return path
}

// model knows Keystone's rules, as its documentation has them, by which the test knows what
// tokens may do. It shares nothing with the server.
type model struct {
	random  *rand.Rand
	domains []*place
	// all are domains and projects.
	all    []*place
	people []*someone
	groups []string
	// members are users by group and id.
	members map[string]map[string]bool
	// roles are global, local are roles of one domain, which tokens never have.
	roles []string
	local map[string]*place
	// implied are pairs of roles, of which the first implies the second.
	implied [][2]string
	held    []held
	syncs   []*mapping
	// onSystem are users with a role on the system.
	onSystem map[string]bool
	tokens   []*issued
	clients  sync.Map
}

// issued is a token.
type issued struct {
	token string
	about string
	// user is whom it names, and of whose roles it has at a place, nil for none; limit are the
	// roles of an application credential or a trust, nil for all.
	user  string
	of    *someone
	at    *place
	limit map[string]bool
	// trust is whether what these roles imply now is among them.
	trust bool
	// ended is whether Keystone has withdrawn it.
	ended bool
}

// effective returns the roles that a user has at a place.
func (m *model) effective(u *someone, at *place) map[string]bool {
	found := map[string]bool{}
	if at == nil || !at.enabled || !u.enabled {
		return found
	}
	for _, h := range m.held {
		if h.who != u.id && !m.members[h.who][u.id] {
			continue
		}
		if h.inherited && at.isBelow(h.at) || !h.inherited && at == h.at {
			found[h.role] = true
		}
	}
	m.close(found)
	maps.DeleteFunc(found, func(role string, _ bool) bool { return m.local[role] != nil })
	return found
}

// close adds what roles imply.
func (m *model) close(roles map[string]bool) {
	for range m.implied { // as long as a chain can be
		for _, pair := range m.implied {
			if roles[pair[0]] {
				roles[pair[1]] = true
			}
		}
	}
}

// rolesOf returns the roles that a token has now.
func (m *model) rolesOf(t *issued) map[string]bool {
	roles := m.effective(t.of, t.at)
	if t.limit != nil {
		limit := maps.Clone(t.limit)
		if t.trust {
			m.close(limit)
		}
		maps.DeleteFunc(roles, func(role string, _ bool) bool { return !limit[role] })
	}
	return roles
}

// groupsOf returns the groups that a token must have.
func (m *model) groupsOf(t *issued) []string {
	groups := []string{}
	for role := range m.rolesOf(t) {
		kind := "keystone:project:"
		if t.at.parent == nil {
			kind = "keystone:domain:"
		}
		groups = append(groups, kind+t.at.id+":"+role)
	}
	return groups
}

// level returns what a token may do in a namespace of a tenant, empty for all of them.
func (m *model) level(t *issued, n tenant.Name, namespace string) int {
	if t.at == nil || t.at.domain.tenant == "" || n != t.at.domain.tenant {
		return nothing
	}
	level, s := nothing, t.at.domain.sync
	for role := range m.rolesOf(t) {
		switch {
		case t.at.parent == nil && role == s.admin:
			return everything
		case t.at.parent == nil:
			level = max(level, s.domain[role])
		case namespace != "" && namespace == t.at.namespace:
			level = max(level, s.project[role])
		}
	}
	return level
}

func pick[T any](m *model, from []T) T { return from[m.random.IntN(len(from))] }

// hostile returns a name of at most so many characters, half of which look like something
// that they are not.
func (m *model) hostile(length int) string {
	suffix := fmt.Sprintf("-%x", m.random.Uint64())
	if m.random.IntN(2) == 0 {
		return "n" + suffix
	}
	known := "0"
	if len(m.all) > 0 && len(m.roles) > 0 {
		known = pick(m, m.all).id + ":" + pick(m, m.roles)
	}
	name := pick(m, []string{
		"system:masters", "system:admin", "system:kube-controller-manager", "system:serviceaccount:kube-system:default", "cluster-admin", "admin",
		"keystone:project:" + known, "keystone:domain:" + known, "keystone:system:all", "keystone:nobody", "tenantry:publisher",
		"../../tenants/system", "a/b/../c", "%2e%2e%2f", ".", "..", "-", "*", "$(id)", "{{.}}", `"}]}`, "'; DROP TABLE user; --",
		"new\nline", "re\rturn", "tab\t", "esc\x1b[2J", "nul\x00", "\u202egnihsam", "\u200b", "ünïcödé", "日本語", "💥", "ﷺ", strings.Repeat("ü", 300), strings.Repeat("-", 300), " ",
	})
	characters := []rune(name)
	room := length - len(suffix)
	return string(characters[:min(len(characters), room)]) + suffix
}

// create makes an object of Keystone that has a hostile name, or a plain one where Keystone
// refuses that.
func (m *model) create(kind string, length int, fields object) string {
	GinkgoHelper()
	all := maps.Clone(fields)
	if all == nil {
		all = object{}
	}
	all["name"] = m.hostile(length)
	status, _, answer := ks.call(ks.token, http.MethodPost, "/"+kind+"s", object{kind: all})
	if status == http.StatusBadRequest {
		return ks.create(kind, ks.name("n"), fields)
	}
	Expect(status).To(Equal(http.StatusCreated), "%q: %v", all["name"], answer)
	return answer[kind].(object)["id"].(string)
}

// build fills Keystone: three domains with a tenant, of which two share a KeystoneSync, and
// one without.
func (m *model) build() {
	GinkgoHelper()
	for range 7 {
		m.roles = append(m.roles, m.create("role", 255, nil))
	}
	for range 4 {
		d := &place{id: m.create("domain", 64, nil), enabled: true}
		d.domain = d
		m.domains, m.all = append(m.domains, d), append(m.all, d)
		role := m.create("role", 255, object{"domain_id": d.id})
		m.local[role] = d
		m.imply(role, pick(m, m.roles))
		for range 4 {
			m.project(d)
		}
		for range 3 {
			password := ks.newPassword()
			m.people = append(m.people, &someone{user{m.create("user", 255, object{"domain_id": d.id, "password": password}), password}, true})
		}
		m.groups = append(m.groups, "group "+m.create("group", 64, object{"domain_id": d.id}))
	}
	for range 3 {
		prior := m.random.IntN(len(m.roles) - 1)
		m.imply(m.roles[prior], m.roles[prior+1+m.random.IntN(len(m.roles)-1-prior)])
	}
	for range 12 {
		m.join(pick(m, m.groups), pick(m, m.people))
	}
	for range 40 {
		m.grant()
	}
	for range 2 {
		u := pick(m, m.people)
		grant("/system", "/users/"+u.id, pick(m, m.roles))
		m.onSystem[u.id] = true
	}
}

// project makes a project somewhere in a domain.
func (m *model) project(d *place) {
	GinkgoHelper()
	parents := slices.DeleteFunc(slices.Clone(m.all), func(p *place) bool { return p.domain != d || !p.enabled })
	parent := pick(m, parents)
	id := m.create("project", 64, object{"domain_id": d.id, "parent_id": parent.id})
	m.all = append(m.all, &place{id: id, parent: parent, domain: d, enabled: true})
}

func (m *model) imply(prior, implied string) {
	GinkgoHelper()
	pair := [2]string{prior, implied}
	if !slices.Contains(m.implied, pair) {
		ks.do(http.MethodPut, "/roles/"+prior+"/implies/"+implied, nil)
		m.implied = append(m.implied, pair)
	}
}

func (m *model) join(group string, u *someone) {
	GinkgoHelper()
	if m.members[group] == nil {
		m.members[group] = map[string]bool{}
	}
	m.members[group][u.id] = true
	ks.do(http.MethodPut, "/groups/"+strings.TrimPrefix(group, "group ")+"/users/"+u.id, nil)
}

// grant gives somebody a role somewhere.
func (m *model) grant() {
	GinkgoHelper()
	h := held{who: pick(m, m.people).id, at: pick(m, m.all), role: pick(m, m.roles), inherited: m.random.IntN(4) == 0}
	if m.random.IntN(3) == 0 {
		h.who = pick(m, m.groups)
	}
	if m.random.IntN(6) == 0 {
		for _, role := range slices.Sorted(maps.Keys(m.local)) {
			if m.local[role] == h.at.domain {
				h.role = role
			}
		}
	}
	if !slices.Contains(m.held, h) {
		ks.do(http.MethodPut, h.path(), nil)
		m.held = append(m.held, h)
	}
}

// change changes one thing that decides who may what.
func (m *model) change() {
	GinkgoHelper()
	switch m.random.IntN(9) {
	case 0, 1, 2:
		m.grant()
	case 3, 4, 5:
		n := m.random.IntN(len(m.held))
		ks.do(http.MethodDelete, m.held[n].path(), nil)
		m.held = slices.Delete(m.held, n, n+1)
	case 6:
		group, u := pick(m, m.groups), pick(m, m.people)
		if !m.members[group][u.id] {
			m.join(group, u)
			return
		}
		ks.do(http.MethodDelete, "/groups/"+strings.TrimPrefix(group, "group ")+"/users/"+u.id, nil)
		delete(m.members[group], u.id)
	case 7:
		n := m.random.IntN(len(m.implied))
		pair := m.implied[n]
		ks.do(http.MethodDelete, "/roles/"+pair[0]+"/implies/"+pair[1], nil)
		m.implied = slices.Delete(m.implied, n, n+1)
	default:
		prior := m.random.IntN(len(m.roles) - 1)
		m.imply(m.roles[prior], m.roles[len(m.roles)-1])
	}
}

// disable disables a project without children, and a user.
func (m *model) disable() {
	GinkgoHelper()
	leaves := slices.DeleteFunc(slices.Clone(m.all), func(p *place) bool {
		return p.parent == nil || !p.enabled || slices.ContainsFunc(m.all, func(o *place) bool { return o.parent == p })
	})
	p, u := pick(m, leaves), pick(m, m.people)
	p.enabled, u.enabled = false, false
	ks.set("project", p.id, object{"enabled": false})
	ks.set("user", u.id, object{"enabled": false})
}

// sync makes KeystoneSyncs of random mappings, of all roles but the last.
func (m *model) sync(ctx context.Context) {
	GinkgoHelper()
	for _, domains := range [][]*place{m.domains[:2], m.domains[2:3]} {
		s := &mapping{project: map[string]int{}, domain: map[string]int{}, admin: m.roles[0]}
		s.object = newSync(ctx, func(spec *v1alpha1.KeystoneSyncSpec) {
			spec.RoleMappings, spec.TenantAdminRoleID = nil, s.admin
			for _, d := range domains {
				d.sync = s
				spec.Domains.IDs = append(spec.Domains.IDs, d.id)
			}
			for _, role := range m.roles[:len(m.roles)-1] {
				s.project[role], s.domain[role] = m.random.IntN(len(clusterRoles)), m.random.IntN(len(clusterRoles))
				for scope, level := range map[v1alpha1.KeystoneScope]int{v1alpha1.KeystoneScopeProject: s.project[role], v1alpha1.KeystoneScopeDomain: s.domain[role]} {
					if level != nothing {
						spec.RoleMappings = append(spec.RoleMappings, v1alpha1.KeystoneRoleMapping{RoleID: role, Scope: scope, ClusterRole: clusterRoles[level]})
					}
				}
			}
		})
		m.syncs = append(m.syncs, s)
	}
}

// synced waits until all that is now in Keystone has been synchronised, and notes the names of
// Tenants and namespaces.
func (m *model) synced(ctx context.Context) {
	GinkgoHelper()
	since := time.Now().Truncate(time.Second)
	for _, s := range m.syncs {
		Eventually(func(g Gomega) {
			status := statusOf(ctx, s.object)
			g.Expect(status.LastSyncTime).NotTo(BeNil())
			g.Expect(status.LastSyncTime.After(since)).To(BeTrue())
			g.Expect(status.Conflicts).To(BeEmpty())
			ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
			g.Expect(ready).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("Reason", v1alpha1.ReasonSynced)))
		}).WithTimeout(2 * synced).Should(Succeed())
	}
	for _, p := range m.all {
		switch {
		case p.domain.sync == nil:
		case p.parent == nil && p.tenant == "":
			p.tenant = tenantOf(ctx, p.id)
		case p.parent != nil && p.namespace == "":
			p.namespace = namespaceOf(ctx, p.domain.tenant, p.id)
		}
	}
}

// issue asks Keystone for tokens of random scopes, which it must give to those alone who have
// a role there.
func (m *model) issue() {
	GinkgoHelper()
	for range 15 {
		m.logIn(pick(m, m.people), pick(m, m.all))
	}
	for range 40 { // of whom some have a role
		if u, at := pick(m, m.people), pick(m, m.all); len(m.effective(u, at)) > 0 {
			m.logIn(u, at)
		}
	}
	u := pick(m, m.people)
	m.add(&issued{about: "without scope", of: u}, u, object{"unscoped": object{}}, u.enabled)
	for _, u := range m.people {
		if m.onSystem[u.id] {
			m.add(&issued{about: "of the system", of: u}, u, object{"system": object{"all": true}}, u.enabled)
		}
	}
}

// logIn makes a token for a place and, half of the time for projects, one more by an application credential or a
// trust with some of the roles.
func (m *model) logIn(u *someone, at *place) {
	GinkgoHelper()
	roles := m.effective(u, at)
	scope, kind := inDomain(at.id), "domain "
	if at.parent != nil {
		scope, kind = inProject(at.id), "project "
	}
	own := &issued{about: "of " + kind + at.id, of: u, at: at}
	if !m.add(own, u, scope, len(roles) > 0) || at.parent == nil || m.random.IntN(2) == 0 {
		return
	}
	limited := &issued{user: u.id, of: u, at: at, limit: map[string]bool{}}
	var some []object
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		if len(some) == 0 || m.random.IntN(3) == 0 {
			some = append(some, object{"id": role})
			limited.limit[role] = true
		}
	}
	if m.random.IntN(2) == 0 {
		limited.about = "of an application credential for " + kind + at.id
		body := object{"name": ks.name("credential"), "secret": ks.newPassword(), "roles": some}
		if m.random.IntN(2) == 0 {
			delete(body, "roles") // it has all that the token has by now
			limited.limit = roles
		}
		status, _, answer := ks.call(own.token, http.MethodPost, "/users/"+u.id+"/application_credentials", object{"application_credential": body})
		Expect(status).To(Equal(http.StatusCreated), "%v", answer)
		id := answer["application_credential"].(object)["id"]
		limited.token, status = ks.authenticate(object{"methods": []string{"application_credential"}, "application_credential": object{"id": id, "secret": body["secret"]}}, nil)
		Expect(status).To(Equal(http.StatusCreated))
		m.tokens = append(m.tokens, limited)
		return
	}
	limited.about, limited.trust = "of a trust for "+kind+at.id, true
	taker := pick(m, m.people)
	if taker == u || !taker.enabled {
		return
	}
	status, _, answer := ks.call(own.token, http.MethodPost, "/OS-TRUST/trusts", object{"trust": object{
		"trustor_user_id": u.id, "trustee_user_id": taker.id, "project_id": at.id, "impersonation": false, "roles": some,
	}})
	Expect(status).To(Equal(http.StatusCreated), "%v", answer)
	m.add(limited, taker, object{"OS-TRUST:trust": object{"id": answer["trust"].(object)["id"]}}, true)
}

// add logs a user in for a scope, which Keystone must allow if may is true, and else refuse.
func (m *model) add(t *issued, u *someone, scope object, may bool) bool {
	GinkgoHelper()
	var status int
	t.token, status = ks.authenticate(object{"methods": []string{"password"}, "password": object{"user": object{"id": u.id, "password": u.password}}}, scope)
	Expect(status == http.StatusCreated).To(Equal(may), "the model knows Keystone's rules: %s of user %s: %d", t.about, u.id, status)
	if t.user = u.id; may {
		m.tokens = append(m.tokens, t)
	}
	return may
}

// question is one of "kubectl auth can-i", in a space.
type question struct {
	token       *issued
	space       tenant.Name
	namespace   string
	right, want int
}

func (q question) String() string {
	r := rights[q.right]
	return fmt.Sprintf("token %s of user %s: %s %s.%s/%s in namespace %q of space %q", q.token.about, q.token.of.id, r.verb, r.resource, r.group, r.subresource, q.namespace, q.space)
}

// Answers.
const (
	no = iota
	yes
	unauthorized
)

// question makes one, more often than not about the token's own tenant and namespace.
func (m *model) question() question {
	q := question{token: pick(m, m.tokens), right: m.random.IntN(len(rights)), want: no}
	spaces := []tenant.Name{"", "acme", "fallback", tenant.System}
	for _, d := range m.domains[:3] {
		spaces = append(spaces, d.tenant)
	}
	q.space = pick(m, spaces)
	namespaces := []string{"", "default", "kube-system"}
	at := q.token.at
	if at != nil && at.domain.tenant != "" && m.random.IntN(4) > 0 {
		q.space = at.domain.tenant
	}
	for _, p := range m.all {
		if p.namespace != "" {
			namespaces = append(namespaces, p.namespace)
		}
	}
	q.namespace = pick(m, namespaces)
	if at != nil && at.namespace != "" && m.random.IntN(2) == 0 {
		q.namespace = at.namespace
	}
	n := q.space
	if at != nil && n == "" { // the short path
		n = at.domain.tenant
	}
	switch {
	case q.token.ended:
		q.want = unauthorized
	case m.level(q.token, n, q.namespace) >= rights[q.right].needs:
		q.want = yes
	}
	return q
}

// ask asks the server.
func (m *model) ask(ctx context.Context, q question) (int, error) {
	key := question{token: q.token, space: q.space}
	c, ok := m.clients.Load(key)
	if !ok {
		c, _ = m.clients.LoadOrStore(key, as(q.space, q.token.token))
	}
	r := rights[q.right]
	review, err := c.(*kubernetes.Clientset).AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: q.namespace, Verb: r.verb, Group: r.group, Version: "*", Resource: r.resource, Subresource: r.subresource,
		}},
	}, metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		return unauthorized, nil
	case apierrors.IsForbidden(err): // nobody may even ask in another's space
		return no, nil
	case apierrors.IsServiceUnavailable(err) && ctx.Err() == nil: // a slow Keystone is no denial
		return m.ask(ctx, q)
	case err != nil:
		return no, err
	case review.Status.Allowed:
		return yes, nil
	default:
		return no, nil
	}
}

// compare asks questions, adds how often there was each answer and returns what differs.
func (m *model) compare(ctx context.Context, questions int, answers map[int]int) []string {
	var mu sync.Mutex
	var differences []string
	var group sync.WaitGroup
	work := make(chan question)
	for range 4 {
		group.Go(func() {
			defer GinkgoRecover()
			for q := range work {
				got, err := m.ask(ctx, q)
				mu.Lock()
				answers[got]++
				if err != nil || got != q.want {
					differences = append(differences, fmt.Sprintf("%s: %d, not %d: %v", q, got, q.want, err))
				}
				mu.Unlock()
			}
		})
	}
	all := make([]question, questions)
	for n := range all {
		all[n] = m.question()
	}
	// Those of a token together, so that Keystone is asked about it once.
	slices.SortStableFunc(all, func(a, b question) int { return slices.Index(m.tokens, a.token) - slices.Index(m.tokens, b.token) })
	for _, q := range all {
		work <- q
	}
	close(work)
	group.Wait()
	return differences
}

// comparePassword logs a user in at the space of the user's domain, who must have all groups
// there that tokens could have.
func (m *model) comparePassword(ctx context.Context, u *someone, repeat string) {
	GinkgoHelper()
	known := ks.do(http.MethodGet, "/users/"+u.id, nil)["user"].(object)
	name := known["name"].(string)
	at := slices.IndexFunc(m.domains, func(d *place) bool { return d.id == known["domain_id"] })
	if m.domains[at].tenant == "" {
		return
	}
	want := []string{"system:authenticated"}
	for _, p := range m.all {
		if p.domain == m.domains[at] {
			want = append(want, m.groupsOf(&issued{of: u, at: p})...)
		}
	}
	info, err := logIn(ctx, m.domains[at].tenant, name, u.password)
	if !u.enabled || strings.Contains(name, ":") || strings.ContainsFunc(name, unicode.IsControl) {
		Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "password of %q: %v; %s", name, err, repeat)
		return
	}
	Expect(err).NotTo(HaveOccurred(), "password of %q; %s", name, repeat)
	Expect(info.Groups).To(ConsistOf(want), "password of %q; %s", name, repeat)
}

var _ = Describe("Random clouds", func() {
	It("give the rights that Keystone's rules say, and no others", func(ctx SpecContext) {
		seed, err := strconv.ParseUint(cmp.Or(os.Getenv("ORACLE_SEED"), strconv.FormatInt(time.Now().UnixNano(), 10)), 10, 64)
		Expect(err).NotTo(HaveOccurred(), "ORACLE_SEED")
		repeat := fmt.Sprintf("ORACLE_SEED=%d make keystone", seed)
		AddReportEntry(repeat)
		m := &model{random: rand.New(rand.NewPCG(seed, 0)), members: map[string]map[string]bool{}, local: map[string]*place{}, onSystem: map[string]bool{}}
		m.build()
		m.sync(ctx)
		answers := map[int]int{}
		for round := range oracleRounds {
			By(fmt.Sprintf("round %d", round))
			if round > 0 {
				for range 10 {
					m.change()
				}
				m.project(pick(m, m.domains))
				m.disable()
			}
			changed := time.Now()
			m.synced(ctx)
			earlier := len(m.tokens)
			m.issue()
			Eventually(func() time.Duration { return time.Since(changed) }).Should(BeNumerically(">", ttl), "what was known of tokens is forgotten")
			for n, t := range m.tokens {
				// What ends a token is Keystone's to say, if any of its rights are left.
				t.ended = t.at != nil && len(m.rolesOf(t)) == 0 || !t.of.enabled
				if !t.ended && n < earlier {
					status, _, _ := ks.call(ks.token, http.MethodGet, "/auth/tokens?nocatalog", nil, "X-Subject-Token", t.token)
					t.ended = status == http.StatusNotFound || status == http.StatusForbidden
				}
				var info authenticationv1.UserInfo
				var err error
				Eventually(func() bool { // a slow Keystone is no denial
					info, err = selfAt(ctx, tenantry.Config(tenant.System), t.token)
					return apierrors.IsServiceUnavailable(err)
				}).Should(BeFalse())
				switch {
				case t.ended:
					Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%s: %v", t.about, err)
				case t.at == nil || t.at.domain.tenant == "": // without tenant nobody may ask
					Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", t.about, err)
				default:
					Expect(err).NotTo(HaveOccurred())
					Expect(info.Username).To(Equal("keystone:" + t.user))
					Expect(info.Groups).To(ConsistOf(append(m.groupsOf(t), "system:authenticated")), "%s; %s", t.about, repeat)
				}
			}
			for _, u := range m.people {
				m.comparePassword(ctx, u, repeat)
			}
			differences := m.compare(ctx, oracleQuestions/oracleRounds, answers)
			Expect(differences).To(BeEmpty(), "%d differences; %s", len(differences), repeat)
		}
		AddReportEntry(fmt.Sprintf("%d tokens; answers: no %d, yes %d, unauthorized %d", len(m.tokens), answers[no], answers[yes], answers[unauthorized]))
		for answer := range 3 {
			Expect(answers[answer]).To(BeNumerically(">", oracleQuestions/50), "an oracle that asks about what is known; %s", repeat)
		}
	}, SpecTimeout(15*time.Minute))
})
