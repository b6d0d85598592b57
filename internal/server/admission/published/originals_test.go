package published

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // knows what is built in

	"github.com/tenantry/tenantry/internal/tenant"
)

// verbs is what one user may do at the cluster scope. It fails for anything else, and
// counts the questions.
type verbs struct {
	allowed []string
	asked   *int
}

// Authorize implements authorizer.Authorizer.
func (v verbs) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	*v.asked++
	if a.GetNamespace() != "" || !a.IsResourceRequest() {
		return authorizer.DecisionDeny, "", errors.New("not asked about the cluster scope")
	}
	for _, verb := range v.allowed {
		if verb == a.GetVerb() || verb == a.GetVerb()+" "+a.GetName() {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func value(v string) change {
	return func(o *corev1.ConfigMap) { o.Annotations[tenant.PublishedAnnotation] = v }
}

func named(o *corev1.ConfigMap)      { o.Name = "named" }
func owned(o *corev1.ConfigMap)      { o.OwnerReferences = []metav1.OwnerReference{{UID: "owner"}} }
func namespaced(o *corev1.ConfigMap) { o.Namespace = "ns" }
func finalized(o *corev1.ConfigMap)  { o.Finalizers = []string{"example.com/stay"} }
func noticed(o *corev1.ConfigMap) {
	o.ResourceVersion, o.SelfLink, o.ManagedFields = "7", "/api", []metav1.ManagedFieldsEntry{{Manager: "m"}}
}

func TestOriginals(t *testing.T) {
	const free, refused = "", "needs the verb"
	both := []string{publishVerb, forceVerb}
	for name, tc := range map[string]struct {
		verbs         []string
		user          string
		subresource   string
		resource      schema.GroupResource
		before, after runtime.Object
		want          string
		asked         bool
	}{
		"what is not published":          {before: object(), after: object(edited)},
		"its creation":                   {after: object()},
		"its deletion":                   {before: object()},
		"an edit with false":             {before: object(value("false")), after: object(value("false"), edited)},
		"a deletion with false":          {before: object(value("false"))},
		"publish":                        {before: object(), after: object(value("true")), want: refused, asked: true},
		"create":                         {after: object(value("true")), want: refused, asked: true},
		"create with false":              {after: object(value("false")), want: refused, asked: true},
		"publish with the verb":          {verbs: []string{publishVerb}, after: object(value("true")), asked: true},
		"publish by name":                {verbs: []string{publishVerb + " o"}, after: object(value("true")), asked: true},
		"publish by another name":        {verbs: []string{publishVerb + " p"}, after: object(value("true")), want: refused, asked: true},
		"force with one verb":            {verbs: []string{publishVerb}, after: object(value("force")), want: forceVerb, asked: true},
		"force with the other":           {verbs: []string{forceVerb}, after: object(value("force")), want: refused, asked: true},
		"force":                          {verbs: both, after: object(value("force")), asked: true},
		"edit":                           {before: object(value("true")), after: object(value("true"), edited), want: refused, asked: true},
		"edit with the verb":             {verbs: []string{publishVerb}, before: object(value("true")), after: object(value("true"), edited), asked: true},
		"edit what is forced":            {verbs: []string{publishVerb}, before: object(value("force")), after: object(value("force"), edited), want: forceVerb, asked: true},
		"force no more":                  {verbs: []string{publishVerb}, before: object(value("force")), after: object(value("true")), want: forceVerb, asked: true},
		"edit nothing":                   {before: object(value("true")), after: object(value("true"), noticed)},
		"take back":                      {before: object(value("true")), after: object(), want: refused, asked: true},
		"take back with false":           {before: object(value("true")), after: object(value("false")), want: refused, asked: true},
		"delete":                         {before: object(value("true")), want: refused, asked: true},
		"begin to delete":                {before: object(value("true"), finalized), after: object(value("true"), finalized, terminating), want: refused, asked: true},
		"finish a deletion":              {before: object(value("true"), finalized, terminating), after: object(value("true"), terminating)},
		"after it":                       {before: object(value("true"), terminating)},
		"edit while it is being deleted": {before: object(value("true"), terminating), after: object(value("true"), terminating, edited), want: refused, asked: true},
		"a value that is none":           {verbs: both, after: object(value("yes")), want: `Invalid value: "yes"`, asked: true},
		"no value":                       {verbs: both, after: object(value("")), want: `Invalid value: ""`, asked: true},
		"True":                           {verbs: both, before: object(value("true")), after: object(value("True")), want: `must be "true" to publish`, asked: true},
		"one from before, edited":        {verbs: both, before: object(value("yes")), after: object(value("yes"), edited), asked: true},
		"one from before, by others":     {before: object(value("yes")), after: object(value("yes"), edited), want: refused, asked: true},
		"with an owner":                  {verbs: both, after: object(value("true"), namespaced, owned), want: "whoever deletes the owner", asked: true},
		"given an owner":                 {verbs: both, before: object(value("true"), namespaced), after: object(value("true"), namespaced, owned), want: "whoever deletes the owner", asked: true},
		"with an owner from before":      {verbs: both, before: object(value("true"), namespaced, owned), after: object(value("true"), namespaced, owned, edited), asked: true},
		"without namespace, owned":       {verbs: both, after: object(value("true"), owned), asked: true},
		"no user":                        {user: "-", before: object(value("true")), want: "it is not known who asks"},
		"a controller edits":             {verbs: both, user: user.APIServerUser, before: object(value("true")), after: object(value("true"), edited), asked: true},
		"a controller of few rights":     {user: user.APIServerUser, before: object(value("true")), after: object(value("true"), edited), want: refused, asked: true},
		"a controller publishes":         {verbs: both, user: user.APIServerUser, after: object(value("true")), want: "comes from a template"},
		"a controller scales":            {verbs: both, user: user.APIServerUser, subresource: "scale", before: object(value("true")), after: object(value("true"), edited), want: "HorizontalPodAutoscaler"},
		"somebody scales":                {verbs: both, subresource: "scale", before: object(value("true")), after: object(value("true"), edited), asked: true},
		"what is made of it":             {resource: schema.GroupResource{Group: "apps", Resource: "replicasets"}, user: user.APIServerUser, after: object(value("true"))},
		"a service with a value":         {resource: corev1.Resource("services"), after: object(named, value("true"))},
		"a service with no value":        {resource: corev1.Resource("services"), after: object(named, value("yes")), want: `Invalid value: "yes"`},
		"a service given no value":       {resource: corev1.Resource("services"), before: object(named), after: object(named, value("")), want: `Invalid value: ""`},
		"a service with one from before": {resource: corev1.Resource("services"), before: object(named, value("yes")), after: object(named, value("yes"), edited)},
		"a service without it":           {resource: corev1.Resource("services"), before: object(named, value("yes")), after: object(named)},
		"a pod with no value":            {resource: corev1.Resource("pods"), after: object(value("no")), want: `Invalid value: "no"`},
		"a tenant with no value":         {resource: schema.GroupResource{Group: "tenantry.io", Resource: "tenants"}, after: object(value("no")), want: `Invalid value: "no"`},
		"what is made of one from before": {resource: schema.GroupResource{Group: "apps", Resource: "replicasets"}, user: user.APIServerUser,
			after: object(value("yes"))},
		"what every space shows":     {resource: corev1.Resource("services"), before: object(), after: object(edited), want: "every space has it", asked: true},
		"delete that":                {resource: corev1.Resource("services"), before: object(), want: "every space has it", asked: true},
		"a namespace with published": {resource: namespaces, before: object(), after: object(terminating), want: `takes configmaps "o/inside" from every space`, asked: true},
		"a namespace with the verb":  {resource: namespaces, verbs: []string{publishVerb}, before: object(), after: object(terminating), asked: true},
		"an edit of a namespace":     {resource: namespaces, before: object(), after: object(edited)},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			rules := Rules{
				Authorizer: verbs{tc.verbs, &asked},
				Shown:      func(o Original) bool { return o.Resource == corev1.Resource("services") && o.Name == "o" },
				Published: func(_ context.Context, namespace string) ([]Original, error) {
					return []Original{{Resource: corev1.Resource("configmaps"), Namespace: namespace, Name: "inside"}}, nil
				},
			}
			if tc.resource.Resource == "" {
				tc.resource = corev1.Resource("configmaps")
			}
			w := who{name: "jane", own: tenant.System, subresource: tc.subresource}
			if tc.user != "" {
				w.name = tc.user
			}
			ctx := w.in(tenant.System)
			if tc.user == "-" {
				ctx = request.WithUser(ctx, nil)
			}
			err := rules.Of(ctx, tenant.System, tc.resource, tc.before)(tc.after)
			if tc.want == free && err != nil || tc.want != free && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if (asked > 0) != tc.asked {
				t.Errorf("the authorizer was asked %d times", asked)
			}
		})
	}
}

func TestOriginalsFailClosed(t *testing.T) {
	ctx := who{name: "jane", own: tenant.System}.in(tenant.System)
	if err := (Rules{}).Of(ctx, tenant.System, corev1.Resource("configmaps"), object(value("true")))(nil); !apierrors.IsForbidden(err) {
		t.Errorf("without an authorizer: %v", err)
	}
	failing := Rules{Published: func(context.Context, string) ([]Original, error) { return nil, errors.New("down") }}
	if err := failing.Of(ctx, tenant.System, namespaces, object())(nil); !apierrors.IsInternalError(err) {
		t.Errorf("without the reports: %v", err)
	}
}

func TestStatusOfOriginals(t *testing.T) {
	asked := 0
	rules := Rules{Authorizer: verbs{nil, &asked}}
	ctx := who{name: "jane", own: tenant.System, subresource: "status"}.in(tenant.System)
	deployment := func(change func(*apps.Deployment)) runtime.Object {
		d := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Annotations: map[string]string{tenant.PublishedAnnotation: "true"}}}
		change(d)
		return d
	}
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	before := deployment(func(*apps.Deployment) {})
	for name, tc := range map[string]struct {
		change  func(*apps.Deployment)
		refused bool
	}{
		"status":     {change: func(d *apps.Deployment) { d.Status.Replicas = 7 }},
		"spec":       {change: func(d *apps.Deployment) { d.Spec.Replicas = 7 }, refused: true},
		"annotation": {change: func(d *apps.Deployment) { d.Annotations = nil }, refused: true},
	} {
		if err := rules.Of(ctx, tenant.System, resource, before)(deployment(tc.change)); apierrors.IsForbidden(err) != tc.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// recorder takes the warnings of a request.
type recorder struct{ texts []string }

// AddWarning implements warning.Recorder.
func (r *recorder) AddWarning(_, text string) { r.texts = append(r.texts, text) }

func TestWarnings(t *testing.T) {
	secret := func(kind core.SecretType) runtime.Object {
		return &core.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Annotations: map[string]string{tenant.PublishedAnnotation: "true"}}, Type: kind}
	}
	asked := 0
	plugins := admission.NewPlugins()
	Register(plugins, Rules{Authorizer: verbs{[]string{publishVerb, forceVerb}, &asked},
		Publishable: []schema.GroupResource{{Resource: "configmaps"}, {Resource: "secrets"}, {Group: "example.com", Resource: "widgets"}}})
	made, err := plugins.InitPlugin(PluginName, nil, admission.PluginInitializers{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		resource      schema.GroupVersionResource
		before, after runtime.Object
		want          string
	}{
		"publishable":          {resource: corev1.SchemeGroupVersion.WithResource("configmaps"), after: object(value("true"))},
		"a namespace":          {resource: corev1.SchemeGroupVersion.WithResource("namespaces"), after: object(value("true"))},
		"not published":        {resource: corev1.SchemeGroupVersion.WithResource("limitranges"), after: object(value("false"))},
		"not configured":       {resource: corev1.SchemeGroupVersion.WithResource("limitranges"), after: object(value("true")), want: "add it to publishable"},
		"already so":           {resource: corev1.SchemeGroupVersion.WithResource("limitranges"), before: object(value("true")), after: object(value("force"))},
		"never":                {resource: corev1.SchemeGroupVersion.WithResource("pods"), after: object(value("true")), want: "pods are made by"},
		"custom":               {resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, after: object(value("true")), want: "publish their definition"},
		"a secret":             {resource: corev1.SchemeGroupVersion.WithResource("secrets"), after: secret(core.SecretTypeOpaque)},
		"an account's token":   {resource: corev1.SchemeGroupVersion.WithResource("secrets"), after: secret(core.SecretTypeServiceAccountToken), want: "credentials"},
		"a token to bootstrap": {resource: corev1.SchemeGroupVersion.WithResource("secrets"), after: secret(core.SecretTypeBootstrapToken), want: "credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			operation := admission.Create
			if tc.before != nil {
				operation = admission.Update
			}
			got := &recorder{}
			ctx := warning.WithWarningRecorder(who{name: "admin", own: tenant.System}.in(tenant.System), got)
			a := admission.NewAttributesRecord(tc.after, tc.before, schema.GroupVersionKind{}, "", "o", tc.resource, "", operation, nil, false, &user.DefaultInfo{Name: "admin"})
			if err := made.(admission.ValidationInterface).Validate(ctx, a, nil); err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(got.texts, "\n"); tc.want == "" && text != "" || !strings.Contains(text, tc.want) {
				t.Errorf("got %q, want %q", text, tc.want)
			}
		})
	}
}
