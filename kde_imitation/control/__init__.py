"""Moving inside limits: no ROS here."""
