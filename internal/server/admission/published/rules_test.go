package published

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	autoscaling "k8s.io/kubernetes/pkg/apis/autoscaling"

	"github.com/tenantry/tenantry/internal/tenant"
)

type change func(*corev1.ConfigMap)

func object(changes ...change) runtime.Object {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "o", Labels: map[string]string{}, Annotations: map[string]string{}}}
	for _, c := range changes {
		c(o)
	}
	return o
}

func marked(o *corev1.ConfigMap) {
	o.Labels[tenant.PublishedCopyLabel] = tenant.PublishedCopy
	o.Annotations[tenant.PublishedFromAnnotation] = "uid/hash"
}
func holding(o *corev1.ConfigMap)    { o.Labels[tenant.PublishedCopyLabel] = tenant.PublishedNamespace }
func edited(o *corev1.ConfigMap)     { o.Labels["x"] = "y" }
func emptyLabel(o *corev1.ConfigMap) { o.Labels[tenant.PublishedCopyLabel] = "" }
func from(o *corev1.ConfigMap)       { o.Annotations[tenant.PublishedFromAnnotation] = "" }
func formerlyMarked(o *corev1.ConfigMap) {
	o.Labels[tenant.Former(tenant.PublishedCopyLabel)] = tenant.PublishedCopy
}
func formerlyFrom(o *corev1.ConfigMap) {
	o.Annotations[tenant.Former(tenant.PublishedFromAnnotation)] = "uid/hash"
}
func project(o *corev1.ConfigMap) {
	o.Labels[tenant.KeystoneLabel] = tenant.KeystoneProject
	o.Annotations[tenant.KeystoneIDAnnotation] = "6bfde9b0e82b4c0bb40b84496b85173e"
}
func anotherProject(o *corev1.ConfigMap) {
	project(o)
	o.Annotations[tenant.KeystoneIDAnnotation] = "another"
}

// joined has one mark that reads as two did when they were joined.
func joined(o *corev1.ConfigMap) {
	o.Annotations[tenant.KeystoneIDAnnotation] += "===2026-01-01T00:00:00Z"
}

func gone(o *corev1.ConfigMap)        { o.Annotations[tenant.KeystoneGoneAnnotation] = "2026-01-01T00:00:00Z" }
func disabled(o *corev1.ConfigMap)    { o.Annotations[tenant.KeystoneDisabledAnnotation] = "true" }
func forUser(o *corev1.ConfigMap)     { o.Labels[tenant.UserLabel] = "0b0e2f4c" }
func forAnother(o *corev1.ConfigMap)  { o.Labels[tenant.UserLabel] = "" }
func terminating(o *corev1.ConfigMap) { o.DeletionTimestamp = &metav1.Time{} }

// who acts: a user's name, the tenant of its credentials and, if they differ, of
// the user in effect.
type who struct {
	name        string
	own         tenant.Name
	extra       tenant.Name
	subresource string
}

func (w who) in(n tenant.Name) context.Context {
	u := &user.DefaultInfo{Name: w.name}
	if w.extra != "" {
		u.Extra = map[string][]string{tenant.UserExtraKey: {string(w.extra)}}
	}
	ctx := tenant.WithRequest(context.Background(), &tenant.Request{Requested: n.Scope(), Authenticated: w.own})
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{Subresource: w.subresource})
	return request.WithUser(ctx, u)
}

func TestRules(t *testing.T) {
	jane := who{name: "jane", own: "a"}
	foreign := who{name: "jane", own: "b"}
	platform := who{name: "system:apiserver", own: tenant.System}
	status := who{name: "system:apiserver", own: tenant.System, subresource: "status"}
	publisher := who{name: tenant.Publisher, own: tenant.System}
	const allowed = ""
	for name, tc := range map[string]struct {
		who           who
		space         tenant.Name
		before, after runtime.Object
		want          string
	}{
		"anybody's own":                       {who: jane, before: object(), after: object(edited)},
		"create":                              {who: jane, after: object()},
		"delete":                              {who: jane, before: object()},
		"edit a copy":                         {who: jane, before: object(marked), after: object(marked, edited), want: "copy of an object"},
		"edit nothing of a copy":              {who: jane, before: object(marked), after: object(marked), want: "copy of an object"},
		"unmark a copy":                       {who: jane, before: object(marked), after: object(), want: "copy of an object"},
		"delete a copy":                       {who: jane, before: object(marked), want: "copy of an object"},
		"status of a copy":                    {who: who{name: "jane", own: "a", subresource: "status"}, before: object(marked), after: object(marked), want: "copy of an object"},
		"delete what is made of a copy":       {who: jane, before: object(from)},
		"edit what is made of a copy":         {who: jane, before: object(from), after: object(from, edited)},
		"unmark what is made of a copy":       {who: jane, before: object(from), after: object(), want: "are the platform's"},
		"platform makes something of a copy":  {who: platform, after: object(from)},
		"platform makes a copy of it":         {who: platform, before: object(from), after: object(marked), want: "are the platform's"},
		"a copy with an unknown mark":         {who: jane, before: object(emptyLabel), want: "copy of an object"},
		"forge a copy":                        {who: jane, after: object(marked), want: "are the platform's"},
		"forge with the label":                {who: jane, after: object(emptyLabel), want: "are the platform's"},
		"forge with the annotation":           {who: jane, after: object(from), want: "are the platform's"},
		"forge with the former label":         {who: jane, after: object(formerlyMarked), want: "have other names now"},
		"forge with the former annotation":    {who: jane, before: object(), after: object(formerlyFrom), want: "have other names now"},
		"publisher with the former label":     {who: publisher, before: object(marked), after: object(formerlyMarked), want: "have other names now"},
		"forge by an edit":                    {who: jane, before: object(), after: object(marked), want: "are the platform's"},
		"forge a namespace":                   {who: jane, before: object(), after: object(holding), want: "are the platform's"},
		"edit a namespace with copies":        {who: jane, before: object(holding), after: object(holding, edited)},
		"delete a namespace with copies":      {who: jane, before: object(holding), after: object(holding, terminating), want: "holds copies"},
		"remove a namespace with copies":      {who: jane, before: object(holding), want: "holds copies"},
		"unmark a namespace with copies":      {who: jane, before: object(holding), after: object(), want: "are the platform's"},
		"make a copy of a namespace":          {who: jane, before: object(holding), after: object(marked), want: "are the platform's"},
		"finalize a namespace with copies":    {who: jane, before: object(holding, terminating), after: object(holding, terminating)},
		"another tenant":                      {who: foreign, before: object(marked), want: "copy of an object"},
		"another tenant's status":             {who: who{name: "jane", own: "b", subresource: "status"}, before: object(marked), after: object(marked), want: "copy of an object"},
		"platform deletes":                    {who: platform, before: object(marked), want: "copy of an object"},
		"platform edits":                      {who: platform, before: object(marked), after: object(marked, edited), want: "copy of an object"},
		"platform marks":                      {who: platform, after: object(marked), want: "are the platform's"},
		"platform deletes a namespace":        {who: platform, before: object(holding), want: "holds copies"},
		"platform writes status":              {who: status, before: object(marked), after: object(marked)},
		"platform unmarks by status":          {who: status, before: object(marked), after: object(), want: "copy of an object"},
		"platform deletes by status":          {who: status, before: object(marked), want: "copy of an object"},
		"platform finishes a deletion":        {who: status, before: object(marked, terminating)},
		"tenant finishes a deletion":          {who: jane, before: object(marked, terminating), want: "copy of an object"},
		"publisher creates":                   {who: publisher, after: object(marked)},
		"publisher edits":                     {who: publisher, before: object(marked), after: object(marked, edited)},
		"publisher deletes":                   {who: publisher, before: object(marked)},
		"publisher by name of a tenant":       {who: who{name: tenant.Publisher, own: "a"}, before: object(marked), want: "copy of an object"},
		"publisher impersonated for a tenant": {who: who{name: tenant.Publisher, own: tenant.System, extra: "a"}, before: object(marked), want: "copy of an object"},
		"publisher of another tenant":         {who: who{name: tenant.Publisher, own: "b"}, after: object(marked), want: "are the platform's"},
		"edit what is made of Keystone":       {who: jane, before: object(project), after: object(project, edited)},
		"delete what is made of Keystone":     {who: jane, before: object(project)},
		"forge what is made of Keystone":      {who: jane, after: object(project), want: "made of OpenStack's Keystone"},
		"forge it by an edit":                 {who: jane, before: object(), after: object(project), want: "made of OpenStack's Keystone"},
		"unmark what is made of Keystone":     {who: jane, before: object(project), after: object(), want: "made of OpenStack's Keystone"},
		"make another project of it":          {who: jane, before: object(project), after: object(anotherProject), want: "made of OpenStack's Keystone"},
		"forge that a project is gone":        {who: jane, before: object(project), after: object(project, gone), want: "made of OpenStack's Keystone"},
		"forge that a project is there":       {who: jane, before: object(project, gone), after: object(project), want: "made of OpenStack's Keystone"},
		"forge that a project is disabled":    {who: jane, before: object(project), after: object(project, disabled), want: "made of OpenStack's Keystone"},
		"forge that a project is enabled":     {who: jane, before: object(project, disabled), after: object(project), want: "made of OpenStack's Keystone"},
		"join two marks to one":               {who: jane, before: object(project, gone), after: object(project, joined), want: "made of OpenStack's Keystone"},
		"unmark it while it ends":             {who: jane, before: object(project), after: object(terminating), want: "made of OpenStack's Keystone"},
		"make a copy of it":                   {who: jane, before: object(project), after: object(project, marked), want: "are the platform's"},
		"platform makes it of Keystone":       {who: platform, after: object(project), want: "made of OpenStack's Keystone"},
		"publisher makes it of Keystone":      {who: publisher, after: object(project)},
		"publisher unmarks it":                {who: publisher, before: object(project), after: object()},
		"edit what is made for a User":        {who: jane, before: object(forUser), after: object(forUser, edited)},
		"delete what is made for a User":      {who: jane, before: object(forUser)},
		"forge what is made for a User":       {who: jane, after: object(forAnother), want: "made for a User"},
		"make it another's":                   {who: jane, before: object(forUser), after: object(forAnother), want: "made for a User"},
		"unmark what is made for a User":      {who: platform, before: object(forUser), after: object(), want: "made for a User"},
		"publisher makes it for a User":       {who: publisher, after: object(forUser)},
		"space that is being deleted":         {who: platform, space: "gone", before: object(marked)},
		"system space":                        {who: platform, space: tenant.System, before: object(marked), after: object(edited)},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.space == "" {
				tc.space = "a"
			}
			rules := Rules{Terminating: func(n tenant.Name) bool { return n == "gone" }}
			err := rules.Of(tc.who.in(tc.space), tc.space, corev1.Resource("configmaps"), tc.before)(tc.after)
			switch {
			case tc.want == allowed && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != allowed && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want it forbidden because %q", err, tc.want)
			}
		})
	}
}

func TestRevisionsOfDeployments(t *testing.T) {
	platform, jane := who{name: "system:apiserver", own: tenant.System}, who{name: "jane", own: "a"}
	noted := func(o *corev1.ConfigMap) {
		o.Annotations["deployment.kubernetes.io/revision"], o.ResourceVersion = "1", "2"
	}
	for name, tc := range map[string]struct {
		who       who
		resource  string
		after     runtime.Object
		forbidden bool
	}{
		"noted by the platform":          {who: platform, resource: "deployments", after: object(marked, noted)},
		"noted by the tenant":            {who: jane, resource: "deployments", after: object(marked, noted), forbidden: true},
		"changed by the platform":        {who: platform, resource: "deployments", after: object(marked, noted, edited), forbidden: true},
		"noted on something else":        {who: platform, resource: "statefulsets", after: object(marked, noted), forbidden: true},
		"noted without where it is from": {who: platform, resource: "deployments", after: object(noted), forbidden: true},
		"deleted by the platform":        {who: platform, resource: "deployments", forbidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			rules := Rules{Terminating: func(tenant.Name) bool { return false }}
			before := object(marked)
			mayBecome := rules.Of(tc.who.in("a"), "a", schema.GroupResource{Group: "apps", Resource: tc.resource}, before)
			if err := mayBecome(tc.after); apierrors.IsForbidden(err) != tc.forbidden {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRulesReadTheObjectBeforeItIsChanged(t *testing.T) {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "o", Labels: map[string]string{tenant.PublishedCopyLabel: tenant.PublishedCopy}}}
	rules := Rules{Terminating: func(tenant.Name) bool { return false }}
	mayBecome := rules.Of(who{name: "jane", own: "a"}.in("a"), "a", corev1.Resource("configmaps"), obj)
	delete(obj.Labels, tenant.PublishedCopyLabel)
	if err := mayBecome(obj); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
}

func TestPlugin(t *testing.T) {
	plugins := admission.NewPlugins()
	Register(plugins, Rules{Terminating: func(tenant.Name) bool { return false }})
	made, err := plugins.InitPlugin(PluginName, nil, admission.PluginInitializers{})
	if err != nil {
		t.Fatal(err)
	}
	plugin := made.(admission.ValidationInterface)
	for name, tc := range map[string]struct {
		operation   admission.Operation
		subresource string
		before      runtime.Object
		after       runtime.Object
		forbidden   bool
	}{
		"create":      {operation: admission.Create, after: object(marked), forbidden: true},
		"update":      {operation: admission.Update, before: object(marked), after: object(marked), forbidden: true},
		"delete":      {operation: admission.Delete, before: object(marked), forbidden: true},
		"delete own":  {operation: admission.Delete, before: object()},
		"scale":       {operation: admission.Update, subresource: "scale", before: &autoscaling.Scale{}, after: &autoscaling.Scale{}}, // for storage to decide
		"own, as new": {operation: admission.Create, after: object()},
	} {
		t.Run(name, func(t *testing.T) {
			a := admission.NewAttributesRecord(tc.after, tc.before, schema.GroupVersionKind{}, "ns", "o",
				corev1.SchemeGroupVersion.WithResource("configmaps"), tc.subresource, tc.operation, nil, false, &user.DefaultInfo{Name: "jane"})
			if err := plugin.Validate(who{name: "jane", own: "a"}.in("a"), a, nil); apierrors.IsForbidden(err) != tc.forbidden {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("without a tenant", func(t *testing.T) {
		a := admission.NewAttributesRecord(object(), nil, schema.GroupVersionKind{}, "ns", "o",
			corev1.SchemeGroupVersion.WithResource("configmaps"), "", admission.Create, nil, false, &user.DefaultInfo{Name: "jane"})
		if err := plugin.Validate(context.Background(), a, nil); !apierrors.IsForbidden(err) {
			t.Errorf("got %v", err)
		}
	})
}
