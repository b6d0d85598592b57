package tenant

// Creator is who has created a namespace, see CreatorAnnotation.
type Creator struct {
	// Tenant is that of the user, who may be a foreign one.
	Tenant Name `json:"tenant"`
	// Name and UID are those that authentication has given. Many users have no UID.
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"`
}
