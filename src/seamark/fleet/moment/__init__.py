"""Back to a moment: where owners stood, who says so, and the plan that puts them there."""
