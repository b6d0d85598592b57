package authorization

import (
	"cmp"
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

// boundPod is a pod of the flattened view that has a secret, a config map, an
// account and a claim.
func boundPod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid"},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "account",
			Volumes: []corev1.Volume{
				{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}}},
				{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
				{Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			},
		},
	}
}

func boundVolume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				NodeStageSecretRef: &corev1.SecretReference{Namespace: "kube-system", Name: "mount"},
			}},
		},
	}
}

func TestNodes(t *testing.T) {
	views := informers.NewSharedInformerFactory(fake.NewClientset(
		boundPod("a|default", "web", "n1"), boundPod("b|default", "web", "n2"), boundPod("system-pods", "dns", "n1"),
		boundVolume("a|disk"), boundVolume("b|disk"),
	), 0)
	nodes := newNodeAuthorizer(views)
	views.Start(t.Context().Done())
	views.WaitForCacheSync(t.Context().Done())

	get := func(resource, namespace, name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: "get", Resource: resource, Namespace: namespace, Name: name, ResourceRequest: true}
	}
	does := func(verb, resource, subresource, namespace, name string) authorizer.AttributesRecord {
		a := get(resource, namespace, name)
		a.Verb, a.Subresource = verb, subresource
		return a
	}
	in := func(group string, a authorizer.AttributesRecord) authorizer.AttributesRecord {
		a.APIGroup = group
		return a
	}
	onNode := func(node string) authorizer.AttributesRecord {
		a := does("list", "pods", "", "", "")
		a.FieldSelectorRequirements = fields.OneTermEqualSelector("spec.nodeName", node).Requirements()
		return a
	}
	type row struct {
		userTenant tenant.Name  // system by default
		space      tenant.Scope // a by default
		node       string       // n1 by default
		request    authorizer.AttributesRecord
		allowed    bool
	}
	rows := map[string]row{
		"secret of its pod":                     {request: get("secrets", "default", "secret"), allowed: true},
		"config map of its pod":                 {request: get("configmaps", "default", "config"), allowed: true},
		"claim of its pod":                      {request: get("persistentvolumeclaims", "default", "data"), allowed: true},
		"volume of its pod":                     {request: get("persistentvolumes", "", "disk"), allowed: true},
		"secret of that volume":                 {request: get("secrets", "kube-system", "mount"), allowed: true},
		"token of its pod's account":            {request: does("create", "serviceaccounts", "token", "default", "account"), allowed: true},
		"its pod":                               {request: get("pods", "default", "web"), allowed: true},
		"its pods":                              {request: onNode("n1"), allowed: true},
		"status of its pod":                     {request: does("patch", "pods", "status", "default", "web"), allowed: true},
		"deletion of its pod":                   {request: does("delete", "pods", "", "default", "web"), allowed: true},
		"services":                              {request: does("list", "services", "", "", ""), allowed: true},
		"events":                                {request: does("create", "events", "", "default", ""), allowed: true},
		"its pod in the system space":           {space: tenant.System.Scope(), request: get("secrets", "system-pods", "secret"), allowed: true},
		"itself":                                {space: tenant.System.Scope(), request: get("nodes", "", "n1"), allowed: true},
		"secret of the same name elsewhere":     {space: "b", request: get("secrets", "default", "secret")},
		"that of the system space":              {space: tenant.System.Scope(), request: get("secrets", "default", "secret")},
		"that of the system space, of a volume": {space: tenant.System.Scope(), request: get("secrets", "kube-system", "mount")},
		"flattened from the system space":       {space: tenant.System.Scope(), request: get("secrets", "a|default", "secret")},
		"secret of a system pod in a":           {request: get("secrets", "system-pods", "secret")},
		"volume elsewhere":                      {space: "b", request: get("persistentvolumes", "", "disk")},
		"secret of a volume elsewhere":          {space: "b", request: get("secrets", "kube-system", "mount")},
		"another secret":                        {request: get("secrets", "default", "other")},
		"all secrets":                           {request: does("list", "secrets", "", "default", "")},
		"writing a secret":                      {request: does("update", "secrets", "", "default", "secret")},
		"another node":                          {node: "n2", request: get("secrets", "default", "secret")},
		"another node's own":                    {node: "n2", space: "b", request: get("secrets", "default", "secret"), allowed: true},
		"status of another's pod":               {node: "n2", request: does("patch", "pods", "status", "default", "web")},
		"deletion of another's pod":             {node: "n2", request: does("delete", "pods", "", "default", "web")},
		"eviction of another's pod":             {node: "n2", request: does("create", "pods", "eviction", "default", "web")},
		"all pods":                              {request: does("list", "pods", "", "", "")},
		"another node's pods":                   {request: onNode("n2")},
		"a pod of its own":                      {request: does("create", "pods", "", "default", "")},
		"a node":                                {request: does("create", "nodes", "", "", "")},
		"a lease":                               {request: in("coordination.k8s.io", does("update", "leases", "", "kube-node-lease", "n1"))},
		"a review":                              {request: in("authentication.k8s.io", does("create", "tokenreviews", "", "", ""))},
		"a certificate":                         {request: in("certificates.k8s.io", does("create", "certificatesigningrequests", "", "", ""))},
		"everywhere at once":                    {space: tenant.All, request: onNode("n1")},
		"a tenant's user of that name":          {userTenant: "a", request: get("secrets", "default", "secret")},
	}
	ask := func(tc row) (bool, error) {
		userTenant, space, node := cmp.Or(tc.userTenant, tenant.System), cmp.Or(tc.space, "a"), cmp.Or(tc.node, "n1")
		u := &user.DefaultInfo{Name: "system:node:" + node, Groups: []string{user.NodesGroup}, Extra: map[string][]string{tenant.UserExtraKey: {string(userTenant)}}}
		ctx := tenant.WithRequest(request.WithUser(context.Background(), u), &tenant.Request{Requested: space, Authenticated: userTenant})
		tc.request.User = u
		decision, _, err := nodes.Authorize(ctx, tc.request)
		return decision == authorizer.DecisionAllow, err
	}
	// The graph is behind the informers' caches.
	for name, tc := range rows {
		if tc.allowed {
			until.True(t, name, func() bool {
				allowed, err := ask(tc)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				return allowed
			})
		}
	}
	for name, tc := range rows {
		t.Run(name, func(t *testing.T) {
			if allowed, err := ask(tc); err != nil || allowed != tc.allowed {
				t.Errorf("allowed %t, %v; want %t", allowed, err, tc.allowed)
			}
		})
	}
}
