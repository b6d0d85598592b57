package user

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// creatorName is before the name of a User in that of its ClusterRoleBinding.
	creatorName = "tenantry:user:"
	// ownerName is the name of the Role and the RoleBinding in each namespace of a User.
	ownerName = "tenantry:user"
)

// madeFor returns the metadata of what is made for a User.
func madeFor(u *v1alpha1.User, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{tenant.UserLabel: string(u.UID)}}
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func subjects(u *v1alpha1.User) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: u.Spec.Username}}
}

// creatorBinding lets a User create namespaces.
func creatorBinding(u *v1alpha1.User) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta: typeOf("ClusterRoleBinding"), ObjectMeta: madeFor(u, "", creatorName+tenant.Flat(u.Name).Plain()), Subjects: subjects(u),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: v1alpha1.NamespaceCreator},
	}
}

// ownerRole has every right in a namespace, that to read the namespace itself included.
func ownerRole(u *v1alpha1.User, namespace string) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta: typeOf("Role"), ObjectMeta: madeFor(u, namespace, ownerName),
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{rbacv1.APIGroupAll}, Resources: []string{rbacv1.ResourceAll}, Verbs: []string{rbacv1.VerbAll}}},
	}
}

// ownerBinding gives a User the rights of ownerRole.
func ownerBinding(u *v1alpha1.User, namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta: typeOf("RoleBinding"), ObjectMeta: madeFor(u, namespace, ownerName), Subjects: subjects(u),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: ownerName},
	}
}
